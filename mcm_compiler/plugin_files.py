"""Plug-ins of one file: they are run once, and what a failing one registered goes again."""

from __future__ import annotations

import importlib.util
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.plugin_kinds import Kind
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault


class _Loading:
    """The plug-in file that is being run.

    Attributes:
        path: of the file.
        undo: takes out again what it has registered.
        places: file and line of each kind and name.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.undo: list[Callable[[], None]] = []
        self.places: dict[tuple[str, str], str] = {}


_loading: _Loading | None = None


def current() -> str | None:
    """The plug-in file that is being run."""
    return _loading and _loading.path


def take(kind: Kind, name: str) -> None:
    """Notes the line of the plug-in that registers a name.

    Raises:
        CompileError: MCM-X001 if another line has.
    """
    if _loading is None:
        return
    path = _loading.path
    lines = [f.lineno for f in traceback.extract_stack() if f.filename == path]
    place = f"{path}:{lines[-1]}" if lines else path
    other = _loading.places.setdefault((kind.name, name), place)
    if other != place:
        raise twice(kind, name, other, place)


def to_undo(undo: Callable[[], None]) -> None:
    """Has `undo` called if the plug-in that is being run fails."""
    if _loading is not None:
        _loading.undo.append(undo)


def twice(kind: Kind, name: str, origin: str, other: str) -> CompileError:
    """MCM-X001 for a name that two origins register."""
    return CompileError.of(
        "MCM-X001", f"two {kind.words} registrations are named '{name}'", at=f"{origin} and {other}"
    )


FILE_MODULE = "mcm_plugin_"
"""How names of modules of one-file plug-ins begin."""


def loaded_plugins() -> list[Path]:
    """The plug-in files that were run in this process, in that order."""
    return [
        Path(module.__file__).resolve()
        for name, module in list(sys.modules.items())
        if name.startswith(FILE_MODULE) and module.__file__ is not None
    ]


def load_plugins(paths: Iterable[Path]) -> None:
    """Runs several one-file plug-ins.

    Raises:
        CompileError: as `load_plugin`.
    """
    for path in paths:
        load_plugin(path)


def load_plugin(path: Path) -> None:
    """Runs a one-file plug-in, whose decorators register its components; once per process.

    Raises:
        CompileError: MCM-X004 if the file is missing or fails while it is imported, MCM-X001 for
            a name that is taken. Nothing of it stays registered then.
    """
    global _loading
    # Two files of one name are two modules; type hints are resolved in theirs.
    name = f"{FILE_MODULE}{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CompileError.of(
            "MCM-X004",
            "the plug-in file does not exist or is not Python",
            at=str(path),
            hint="give the path of a file that exists and ends in .py",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _loading = _Loading(path)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        for undo in _loading.undo:
            undo()
        if is_no_fault(error):
            raise
        raise CompileError.of(
            "MCM-X004", f"the plug-in fails: {fault_text(error)}", at=str(path)
        ) from error
    finally:
        _loading = None
