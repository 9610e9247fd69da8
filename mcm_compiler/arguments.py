"""Arguments of functions that Python code calls: of their types, or a diagnostic that says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import onnx_ir as ir

from mcm_compiler.text.spec_text import refuse_argument

T = TypeVar("T")


def model_argument(model: object) -> str | Path | ir.Model:
    """A model, its path, or its name.

    Raises:
        CompileError: MCM-U004 for anything else.
    """
    if isinstance(model, ir.Model | str):
        return model
    if (path := _path_of(model)) is not None:
        return path
    hint = "onnx_ir.from_proto makes a model of an onnx.ModelProto"
    raise refuse_argument("model", model, "a path, a name such as zoo:bert, or a model", hint)


def folder_argument(output: object) -> Path | None:
    """The folder to write, or None.

    Raises:
        CompileError: MCM-U004 for what is no path.
    """
    if output is None:
        return None
    path = _path_of(output)
    if path is None or output == "" or "\0" in str(path):
        raise refuse_argument("output", output, "the path of a folder, or None")
    return path


def options_argument(options: object, kind: type[T]) -> T:
    """Options of a kind, or its default ones where they are None.

    Raises:
        CompileError: MCM-U004 for options of another kind.
    """
    if options is None:
        return kind()
    if isinstance(options, kind):
        return options
    hint = f"give {kind.__name__}(...) with what differs from its defaults"
    raise refuse_argument("options", options, f"{kind.__name__} or None", hint)


def refuse_uncallable(**functions: object) -> None:
    """Makes sure that functions of the caller are some, or None.

    Raises:
        CompileError: MCM-U004 for the first that is none.
    """
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise refuse_argument(name, function, "a function or None")


def _path_of(value: object) -> Path | None:
    """A path, where a value is one or its text."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    return Path(text) if isinstance(text, str) else None
