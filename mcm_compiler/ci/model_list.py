"""Which models a command line names, and where the output of each one goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import page_path
from mcm_compiler.contracts import zoo
from mcm_compiler.diagnostics import CompileError, Diagnostic

SUFFIX = ".onnx"


@dataclass(frozen=True)
class ListedModel:
    """One model of a batch.

    Attributes:
        model: its path as given, below the folder as given, or `zoo:NAME`.
        folder: its output folder, relative to that of the batch; of no other model, neither above
            nor below that of another one, and neither at nor below the page of another one.
    """

    model: str
    folder: PurePosixPath


def list_models(arguments: Sequence[str], skipped: Path) -> tuple[ListedModel, ...]:
    """The models of files, folders and zoo names, in the order of the arguments.

    Of a folder these are the `*.onnx` files at any depth, sorted by their path, and the output
    folders keep its sub-folders. Passed over: what begins with a dot, links to folders, output
    folders of this compiler, and `skipped`. A file that is named twice is listed once.

    Args:
        arguments: as on the command line.
        skipped: the output folder of the batch, which may lie in a folder of models.

    Raises:
        CompileError: MCM-U034 for a folder without models, MCM-U036 if `skipped` is the output of
            a single model.
    """
    if (skipped / layout.MANIFEST).exists():
        raise CompileError.of(
            "MCM-U036",
            "the output folder of many models is that of a single one already",
            at=str(skipped),
        )
    found: dict[str, tuple[str, PurePosixPath]] = {}
    empty: list[Diagnostic] = []
    for argument in arguments:
        if argument.startswith(zoo.PREFIX):
            found.setdefault(argument, (argument, zoo_folder(argument)))
            continue
        path = Path(argument)
        # Of what may not be looked at its compile tells, and the others go on.
        if not os.path.isdir(path):
            key = os.path.abspath(path)
            found.setdefault(key, (argument, PurePosixPath(plain_stem(path.stem))))
            continue
        inside = [file for file in files_below(path, [skipped]) if file.name.endswith(SUFFIX)]
        if not inside:
            empty.append(
                Diagnostic(
                    "MCM-U034", f"the folder holds no *{SUFFIX} file at any depth", at=argument
                )
            )
        for file in inside:
            folder = file.with_name(plain_stem(file.stem))
            found.setdefault(os.path.abspath(path / file), (str(path / file), folder))
    CompileError.raise_any(empty)
    models, folders = zip(*found.values(), strict=True) if found else ((), ())
    distinct = _distinct(models, folders)
    return tuple(map(ListedModel, models, distinct))


def files_below(top: Path, skipped: Iterable[Path] = ()) -> list[PurePosixPath]:
    """Files at any depth, relative to `top` and sorted.

    Passed over: what begins with a dot, links to folders, output folders, and `skipped`.
    """
    ignored = {os.path.realpath(path) for path in skipped}
    found: list[PurePosixPath] = []
    for here, folders, files in os.walk(top):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and os.path.realpath(os.path.join(here, name)) not in ignored
            and not os.path.isfile(os.path.join(here, name, layout.MANIFEST))
        ]
        inside = PurePosixPath(Path(here).relative_to(top))
        found += [inside / name for name in files if not name.startswith(".")]
    return sorted(found, key=lambda path: path.parts)


def zoo_folder(model: str) -> PurePosixPath:
    """The output folder of `zoo:NAME`."""
    return PurePosixPath(plain_stem(model.removeprefix(zoo.PREFIX).partition("{")[0].strip()))


def plain_stem(stem: str) -> str:
    """A stem as the name of a folder: never empty, and never a step up or to where one is."""
    return stem if stem.strip(".") and "/" not in stem else "model"


def _distinct(models: Sequence[str], folders: Sequence[PurePosixPath]) -> tuple[PurePosixPath, ...]:
    """Folders of which none equals another or is in it, also where case does not count.

    The page next to a folder counts as one: `net.html` of `net`. Equal ones become the path of the
    model without its suffix; one that has another below it gets the suffix back; what still
    clashes is numbered in order.
    """
    times = _counts(folders)
    named = [
        _from_path(model) if times[_key(folder)] > 1 else folder
        for model, folder in zip(models, folders, strict=True)
    ]
    parents = {_key(parent) for folder in named for parent in folder.parents}
    named = [
        folder if parents.isdisjoint(_keys(folder)) else folder.with_name(folder.name + SUFFIX)
        for folder in named
    ]
    taken = {_key(parent) for folder in named for parent in folder.parents}
    result: list[PurePosixPath] = []
    for folder in named:
        candidate, number = folder, 1
        while not taken.isdisjoint(_keys(candidate)):
            number += 1
            candidate = folder.with_name(f"{folder.name}-{number}")
        taken.update(_keys(candidate))
        result.append(candidate)
    return tuple(result)


def _from_path(model: str) -> PurePosixPath:
    """The path of a model from here, without steps up and without its suffix."""
    if model.startswith(zoo.PREFIX):
        return zoo_folder(model)
    path = Path(os.path.relpath(model))
    parents = [part for part in path.parent.parts if part != os.pardir]
    return PurePosixPath(*parents, plain_stem(path.stem))


def _counts(folders: Iterable[PurePosixPath]) -> dict[str, int]:
    times: dict[str, int] = {}
    for folder in folders:
        times[_key(folder)] = times.get(_key(folder), 0) + 1
    return times


def _keys(folder: PurePosixPath) -> tuple[str, str]:
    """Keys of a folder, and of the page next to it."""
    return _key(folder), _key(PurePosixPath(page_path(Path(folder))))


def _key(folder: PurePosixPath) -> str:
    return str(folder).casefold()
