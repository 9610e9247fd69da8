"""Files that a verb writes: never over another file by accident, never half."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes import staging


def refuse_existing(path: Path, force: bool) -> None:
    """Stops a verb before it would write over `path`.

    Raises:
        CompileError: MCM-U021 if `path` exists and not `force`, or if it is a folder; MCM-U050 if
            it is a link, a device, a pipe or a socket; MCM-U054 as `refuse_inside_output`.
    """
    refuse_inside_output(path)
    if not path.is_dir() or path.is_symlink():
        staging.refuse_irregular(path)
    if os.path.lexists(path) and (not force or path.is_dir()):
        hint = "choose another one" if path.is_dir() else "choose another one, or give --force"
        raise CompileError.of("MCM-U021", "the output file exists", at=str(path), hint=hint)


def refuse_inside_output(path: Path, folder: Path | None = None) -> None:
    """Stops a verb before it would add a file to an output folder, which would not hold then.

    Args:
        path: of the file.
        folder: an output folder that the verb is about to write.

    Raises:
        CompileError: MCM-U054 if `path` is in `folder`, or in an output folder that is there.
    """
    real = Path(os.path.realpath(path))
    written = folder is not None and real.is_relative_to(os.path.realpath(folder))
    if written or staging.is_output_folder(real.parent):
        raise CompileError.of(
            "MCM-U054",
            "the file would lie in an output folder, which holds no other files",
            at=quote(str(path)),
        )


def refuse_same_file(outputs: Mapping[str, Path | None]) -> None:
    """Stops a verb of which one output would replace another.

    Args:
        outputs: places by option; None for what is not asked for.

    Raises:
        click.UsageError: if two are one file.
    """
    taken: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise click.UsageError(f"{other} and {option} name one file")


def refuse_existing_model(path: Path, force: bool) -> None:
    """`refuse_existing` for an ONNX file and the data file that large weights go to.

    Raises:
        CompileError: MCM-U021, MCM-U050.
    """
    refuse_existing(path, force)
    refuse_existing(path.with_name(f"{path.name}.data"), force)


def write_assignment(
    path: Path, chip_of: Mapping[str, int], column: Literal["chip", "device"]
) -> None:
    """Writes an assignment: JSON to a name that ends in .json, CSV else.

    Raises:
        CompileError: MCM-A002 if the system refuses the write.
    """
    from mcm_compiler.placements.assignment_file import JSON_SUFFIX, assignment_text

    text = assignment_text(chip_of, column, as_json=path.suffix.lower() == JSON_SUFFIX)
    write_with_parents(path, text.encode("utf-8", "backslashreplace"))


def write_with_parents(path: Path, data: bytes) -> None:
    """Writes a file whole, and the folders above it that lack.

    Raises:
        CompileError: MCM-A002 or MCM-U050 if it cannot be written; no empty folder stays then.
    """
    with staging.no_empty_folders(path.parent):
        with diagnosed_writes(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        staging.write_whole(path, data)


@contextmanager
def diagnosed_writes(path: Path) -> Generator[None]:
    """Turns an `OSError` of the block into a diagnostic about `path`.

    Raises:
        CompileError: MCM-A002.
    """
    try:
        yield
    except OSError as error:
        raise staging.cannot_write(error, path) from error
