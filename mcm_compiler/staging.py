"""The staging folder: output is written aside and moved into place whole, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcm_compiler.diagnostics import CompileError, Diagnostic


@dataclass(frozen=True)
class StagingFolder:
    """A folder that becomes the output folder when the compile succeeds.

    Attributes:
        path: where to write.
        destination: the output folder, or None where nothing is kept.
    """

    path: Path
    destination: Path | None


@contextmanager
def staging(destination: Path | None, force: bool = False) -> Generator[StagingFolder]:
    """Opens a staging folder beside `destination` and moves it there when the block succeeds.

    The folder is removed when the block raises. With no destination it lives in the system's
    temporary folder and is always removed.

    Args:
        destination: the output folder; it must not exist unless `force`.
        force: replace an existing output folder.

    Raises:
        CompileError: MCM-A001 if `destination` exists, MCM-A002 if it cannot be written
            (permissions, full disk), MCM-A003 if `force` would replace something that is not an
            output folder of this compiler.
    """
    if destination is not None:
        _check_destination(destination, force)
    try:
        parent = destination.absolute().parent if destination is not None else None
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=".mcmc-", dir=parent))
    except OSError as error:
        raise cannot_write(error, destination) from error
    try:
        try:
            yield StagingFolder(path, destination)
            if destination is not None:
                _move_into_place(path, destination)
        except OSError as error:
            raise cannot_write(error, destination) from error
    finally:
        shutil.rmtree(path, ignore_errors=True)


def cannot_write(error: OSError, destination: Path | None) -> CompileError:
    """The diagnostic for a write that the system refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free space on the disk, or choose another output folder"
    else:
        hint = "choose an output folder that you may write"
    where = destination if destination is not None else error.filename
    return CompileError(
        Diagnostic(
            "MCM-A002",
            f"the output cannot be written: {error.strerror or error}",
            at=str(where) if where is not None else None,
            hint=hint,
        )
    )


def _check_destination(destination: Path, force: bool) -> None:
    if not os.path.lexists(destination):
        return
    if not force:
        raise CompileError(
            Diagnostic(
                "MCM-A001",
                "the output folder exists",
                at=str(destination),
                hint="choose another one with -o, or replace it with --force",
            )
        )
    ours = (destination / "manifest.json").is_file() and not destination.is_symlink()
    if not ours and not (destination.is_dir() and not any(destination.iterdir())):
        raise CompileError(
            Diagnostic(
                "MCM-A003",
                "--force would replace something that this compiler did not write",
                at=str(destination),
                hint="remove it yourself, or choose another output folder",
            )
        )


def _move_into_place(path: Path, destination: Path) -> None:
    path.chmod(0o777 & ~_umask())
    if not os.path.lexists(destination):
        path.rename(destination)
        return
    # Two renames: a kill between them leaves the old folder beside, never a mixture.
    old = Path(tempfile.mkdtemp(prefix=".mcmc-old-", dir=destination.absolute().parent))
    destination.rename(old / destination.name)
    path.rename(destination)
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
