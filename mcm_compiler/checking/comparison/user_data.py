"""Inputs and expected outputs that the user has: ONNX's `test_data_set_N` folders.

Such a folder is next to a model and holds `input_K.pb` and `output_K.pb`: serialised tensors,
sequences, optionals or maps, in the order of the graph's inputs (weights left out) and outputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from mcm_compiler.artifact.manifest import TensorEntry
from mcm_compiler.checking.entry.run_folder import runtime_inputs
from mcm_compiler.contracts.verification import ExpectedComparison
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution import runner, runtime_values
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.text.units import bytes_text, count_text

MAX_FILE_BYTES = 1 << 31
"""Protobuf ends there."""

RTOL, ATOL = 1e-3, 1e-7
"""Relative and absolute tolerance of expected outputs: those of onnx's own runner."""

_SET = re.compile(r"test_data_set_(\d+)")
_FILE = re.compile(r"(input|output)_(\d+)\.pb")


@dataclass(frozen=True, eq=False)
class RunData:
    """Data for one inference.

    Attributes:
        name: what the user calls it: a path, or a folder's name.
        inputs: runtime values by graph input.
        expected: runtime values by graph output; empty where only inputs are given.
    """

    name: str
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any] = field(default_factory=dict[str, Any])


def read_data_sets(path: Path, model: ir.Model) -> list[RunData]:
    """Reads one `test_data_set_N` folder, or all of them in the folder of a model, by number.

    Args:
        path: a folder that holds `input_0.pb`, or one that holds `test_data_set_N` folders.
        model: has the names and kinds of inputs and outputs.

    Raises:
        CompileError: MCM-V011 where there are no such folders, a file cannot be read, or the
            folder holds more inputs or outputs than the model has.
    """
    if not path.is_dir():
        raise _refused(path, "it is not a folder")
    folders = data_set_folders(path)
    if not folders and any(_FILE.fullmatch(child.name) for child in path.iterdir()):
        folders = [path]
    if not folders:
        raise _refused(path, "it holds no test_data_set_N folder and no input_0.pb")
    return [read_data_set(folder, model) for folder in folders]


def data_set_folders(path: Path) -> list[Path]:
    """The `test_data_set_N` folders in a folder, by number."""
    numbered = [
        (int(match[1]), child)
        for child in path.iterdir()
        if (match := _SET.fullmatch(child.name)) and child.is_dir()
    ]
    return [child for _, child in sorted(numbered)]


def read_data_set(folder: Path, model: ir.Model) -> RunData:
    """Reads the files of one folder.

    Raises:
        CompileError: MCM-V011 as `read_data_sets`.
    """
    inputs = _read_part(folder, "input", free_inputs(model))
    expected = _read_part(folder, "output", model.graph.outputs)
    return RunData(folder.name, inputs, expected)


def runtime_value(message: Any) -> Any:
    """Convert a message to the value of onnxruntime: an array, a list, a dict, or None.

    Raises:
        ValueError, TypeError: if the message is malformed.
    """
    if isinstance(message, onnx.OptionalProto):
        kind = onnx.OptionalProto.DataType.Name(message.elem_type)
        if kind == "UNDEFINED":
            return None
        part = f"{kind.lower()}_value"
        return runtime_value(getattr(message, part)) if message.HasField(part) else None
    if isinstance(message, onnx.SequenceProto):
        kind = onnx.SequenceProto.DataType.Name(message.elem_type)
        if kind == "UNDEFINED":
            return []
        return [runtime_value(item) for item in getattr(message, f"{kind.lower()}_values")]
    if isinstance(message, onnx.MapProto):
        values = runtime_value(message.values)
        keys: list[Any] = [key.decode() for key in message.string_keys] or list(message.keys)
        return dict(zip(keys, values, strict=True))
    if message.data_location == onnx.TensorProto.EXTERNAL:
        raise ValueError("its data are in another file")
    array = onnx.numpy_helper.to_array(message)
    return array.astype(object) if array.dtype.kind in "SU" else array


def compare_expected(data: RunData, outputs: Mapping[str, Any]) -> list[ExpectedComparison]:
    """Holds the chips' outputs against those that `data` expects, as onnx's own runner does."""
    return [
        ExpectedComparison(data.name, name, _close(value, found), _error(value, found))
        for name, value in data.expected.items()
        for found in (outputs[name],)
    ]


def _close(expected: Any, actual: Any) -> bool:
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_close, expected, actual))
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return runner.same_bits(expected, actual)
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    if expected.dtype.kind in "OUSb":
        return runner.same_bits(expected, actual)
    if runtime_values.is_exotic(expected.dtype):
        expected, actual = expected.astype(np.float32), actual.astype(np.float32)
    return bool(np.allclose(actual, expected, RTOL, ATOL, equal_nan=True))


def _error(expected: Any, actual: Any) -> float:
    return 0.0 if runner.same_bits(expected, actual) else runner.max_abs_error(expected, actual)


def _read_part(folder: Path, part: str, values: Sequence[ir.Value]) -> dict[str, Any]:
    indices = {
        int(match[2])
        for child in folder.iterdir()
        if (match := _FILE.fullmatch(child.name)) and match[1] == part
    }
    if indices and max(indices) >= len(values):
        raise _refused(
            folder / f"{part}_{max(indices)}.pb",
            f"the model has only {len(values)} {part}s, counted from 0",
        )
    read: dict[str, Any] = {}
    for index in sorted(indices):
        value = values[index]
        message = _message_type(value)()
        path = folder / f"{part}_{index}.pb"
        try:
            if not path.is_file():
                raise _refused(path, "it is not a file")
            if path.stat().st_size >= MAX_FILE_BYTES:
                raise _refused(path, f"it has {path.stat().st_size} bytes; protobuf ends at 2 GiB")
            message.ParseFromString(path.read_bytes())
            read[value.name or ""] = runtime_value(message)
        except (OSError, DecodeError, ValueError, TypeError, KeyError) as error:
            raise _refused(path, " ".join(str(error).split())[:300]) from error
    return read


def _message_type(value: ir.Value) -> Any:
    if isinstance(value.type, ir.OptionalType):
        return onnx.OptionalProto
    if isinstance(value.type, ir.SequenceType):
        return onnx.SequenceProto
    return onnx.TensorProto


def _refused(path: Path, reason: str) -> CompileError:
    return CompileError.of(
        "MCM-V011", f"the test data cannot be used: {reason}", at=quote(str(path))
    )


MAX_SETS = 16
"""Data sets that are compared without being asked for."""

MAX_BYTES = 256 << 20
"""Bytes of their files, of all sets together."""


@dataclass(frozen=True, eq=False)
class SiblingData:
    """Data next to a model.

    Attributes:
        sets: data that fit the model, by number.
        notes: MCM-V024 for data that are left out.
    """

    sets: tuple[RunData, ...]
    notes: tuple[Diagnostic, ...]


def sibling_data(path: Path, model: ir.Model, inputs: Sequence[TensorEntry]) -> SiblingData:
    """Reads the `test_data_set_N` folders next to the file of a model.

    They are left out where the folder holds more models, because nothing says whose they are;
    beyond `MAX_SETS` and `MAX_BYTES`; and where the model was compiled for other sizes.

    Args:
        path: the model's file.
        model: has the names and kinds of inputs and outputs.
        inputs: types and shapes that the model was compiled for.

    Raises:
        CompileError: MCM-V011 for a file that cannot be read, or more of them than the model has
            inputs or outputs.
    """
    folders = data_set_folders(path.absolute().parent)
    if not folders:
        return SiblingData((), ())
    if others := sum(
        1 for file in path.absolute().parent.iterdir() if file.suffix == ".onnx"
    ) - 1:  # fmt: skip
        also = count_text(others, "further model")
        return SiblingData((), (_left_out(folders, f"the folder holds {also}"),))
    notes: list[Diagnostic] = []
    kept = _within_limits(folders)
    if len(kept) < len(folders):
        limit = f"at most {MAX_SETS} sets and {bytes_text(MAX_BYTES)} are compared"
        notes.append(_left_out(folders[len(kept) :], limit))
    sets: list[RunData] = []
    for folder in kept:
        data = read_data_set(folder, model)
        try:
            (values,) = runtime_inputs(inputs, [data.inputs])
        except CompileError as error:
            fault = error.diagnostics[0]
            place = f"{fault.at}: " if fault.at is not None else ""
            notes.append(_left_out([folder], f"{place}{fault.message}"))
        else:
            sets.append(replace(data, inputs=values))
    return SiblingData(tuple(sets), tuple(notes))


def _within_limits(folders: Sequence[Path]) -> Sequence[Path]:
    total = 0
    for number, folder in enumerate(folders):
        total += sum(file.stat().st_size for file in folder.glob("*.pb") if file.is_file())
        if number >= MAX_SETS or total > MAX_BYTES:
            return folders[:number]
    return folders


def _left_out(folders: Sequence[Path], reason: str) -> Diagnostic:
    return Diagnostic(
        "MCM-V024",
        f"{count_text(len(folders), 'data set')} next to the model not compared: {reason}",
        at=quote(folders[0].name),
    )
