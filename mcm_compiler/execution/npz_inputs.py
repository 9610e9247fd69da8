"""Arrays in `.npz` files: read without trust, compared with inputs of a model, and written.

Equal arrays give equal bytes.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.runtime_values import is_exotic
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.limits import MAX_RUN_BYTES
from mcm_compiler.processes.staging import whole_file
from mcm_compiler.text.file_kinds import HEAD_BYTES, kind_of
from mcm_compiler.text.units import bytes_text


@dataclass(frozen=True, eq=False)
class GivenInputs:
    """A user's own inputs of a model.

    Attributes:
        origin: where they come from, for diagnostics and reports.
        arrays: by graph input.
    """

    origin: str
    arrays: Mapping[str, Any]


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name. Nothing in it is executed (no pickle).

    They are in C order and in this machine's byte order, and truth values are 0 or 1.

    Raises:
        CompileError: MCM-U020 if the file is missing, damaged, locked by a password, holds Python
            objects, something other than arrays, arrays that declare more than they hold, or more
            than `MAX_RUN_BYTES`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive)
        loaded = np.load(path, allow_pickle=False)
        with loaded:
            return {name: _plain(loaded[name]) for name in loaded.files}
    except Exception as error:  # damaged archives and headers raise many types
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, zipfile.BadZipFile):
            with path.open("rb") as file:
                kind = kind_of(file.read(HEAD_BYTES))
            reason = "it is not a whole .npz file"
            if kind is not None and "zip archive" not in kind[0]:
                reason = f"it is {kind[0]}, not .npz"
        raise CompileError.of(
            "MCM-U020", f"the input arrays cannot be read: {reason}", at=str(path)
        ) from error


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """Reads headers alone, so that no file of a few bytes takes memory.

    Raises:
        ValueError: if an entry is no array, or declares more bytes than it has, or all are too
            large.
    """
    total = 0
    for entry in archive.infolist():
        total += entry.file_size
        if total > MAX_RUN_BYTES:
            raise ValueError(f"it holds more than {bytes_text(MAX_RUN_BYTES)}")
        if not entry.filename.endswith(".npy"):
            raise ValueError(f"its entry {quote(entry.filename)} is no .npy array")
        with archive.open(entry) as file:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            else:
                shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        if math.prod(shape) * max(dtype.itemsize, 1) > entry.file_size:
            raise ValueError(f"{quote(entry.filename)} declares more than it holds")


def _plain(array: np.ndarray) -> np.ndarray:
    """Equal values as onnxruntime reads memory: it looks at neither byte order nor padding."""
    array = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    return array.view(np.uint8) != 0 if array.dtype.kind == "b" else array


def array_of_type(array: np.ndarray, dtype: ir.DataType) -> np.ndarray:
    """An array as a value of an element type, without a change of any number.

    A type that NumPy lacks (bfloat16, float8, int4 and the like) is read from raw bits: unsigned
    integers or void of its width, as `ml_dtypes` stores them. One of less than a byte takes a byte
    for each element, and signed ones may be sign-extended. Where the file states a type, as onnx
    did in the name of a field, it has to be this one. Strings become Python's.

    Raises:
        ValueError: with the reason if it is of another type.
    """
    if dtype is ir.DataType.STRING:
        return _strings(array)
    wanted, given = dtype.numpy(), array.dtype.name
    refusal = ValueError(f"is {given}, the input {wanted.name}")
    if array.dtype.names is not None:
        (stated, *more) = array.dtype.names
        named = dtype.name.lower()
        if more or stated not in (named, named.removeprefix("float8")):
            raise ValueError(f"is {', '.join(array.dtype.names)}, the input {wanted.name}")
        array = array[stated]
    if array.dtype == wanted:
        return array
    same_width = array.dtype.itemsize == wanted.itemsize
    numbers = array.dtype.kind == "i"  # in which a float's bits hardly come
    allowed = "uiV" if dtype.is_integer() else "uV"
    if not is_exotic(wanted) or not same_width or array.dtype.kind not in allowed:
        raise refusal
    bits = array.view(f"u{wanted.itemsize}")
    if (unused := 8 * wanted.itemsize - dtype.bitwidth) == 0:
        return bits.view(wanted)
    low = bits << unused >> unused
    if not dtype.is_integer() or not dtype.is_signed():
        value, allowed_bits = low.view(wanted), bits == low
    else:
        extended = (bits << unused).view(np.int8) >> unused
        value, allowed_bits = extended.astype(wanted), bits == extended.view(np.uint8)
        allowed_bits |= (bits == low) & (not numbers)
    if not allowed_bits.all():
        raise ValueError(f"has entries of more than {dtype.bitwidth} bits, the input {wanted.name}")
    return value


def _strings(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "OUS":
        raise ValueError(f"is {array.dtype.name}, the input string")
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError:
            raise ValueError("holds bytes that are not UTF-8") from None
    return array.astype(object)


def check_inputs(
    model: ir.Model, given: Mapping[str, Any], origin: str, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """A user's arrays as values of a model's inputs (`array_of_type`).

    Args:
        model: as read, before dimensions are bound.
        given: arrays by input name; those of other inputs are drawn at random.
        origin: where they come from, for the diagnostic.
        shapes: shapes that the user gave as well.

    Raises:
        CompileError: MCM-I051 for a name that is no input, MCM-I052 for an array of another type
            or shape than the input has.
    """
    inputs = {value.name or "": value for value in free_inputs(model)}
    faults: list[Diagnostic] = []
    taken: dict[str, Any] = {}
    for name, array in given.items():
        value = inputs.get(name)
        if value is None:
            faults.append(
                Diagnostic(
                    "MCM-I051",
                    f"the model has no input {quote(name)}",
                    at=quote(origin),
                    hint=f"its inputs: {', '.join(map(quote, inputs)) or 'none'}",
                )
            )
            continue
        try:
            taken[name] = _fitting(value, array, shapes.get(name))
        except ValueError as error:
            faults.append(
                Diagnostic(
                    "MCM-I052", f"the array {error}", at=f"input {quote(name)}, {quote(origin)}"
                )
            )
    CompileError.raise_any(faults)
    return taken


def _fitting(value: ir.Value, array: np.ndarray, shape: tuple[int, ...] | None) -> np.ndarray:
    if not isinstance(value.type, ir.TensorType):
        raise ValueError(f"is for a {value.type}, which no .npz file holds")
    array = array_of_type(array, value.type.dtype)
    if shape is not None and tuple(shape) != array.shape:
        raise ValueError(f"has the shape {list(array.shape)}, and {list(shape)} is asked for")
    declared = value.shape
    fits = declared is None or (
        len(declared) == array.ndim
        and all(
            not isinstance(dim, int) or dim < 0 or dim == size
            for dim, size in zip(declared, array.shape, strict=True)
        )
    )
    if not fits:
        raise ValueError(f"has the shape {list(array.shape)}, the input {declared}")
    return array


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays by name.

    Strings are stored with a fixed length and types of `ml_dtypes` as raw bits, as `numpy.load` can
    read.

    Raises:
        CompileError: MCM-A002 if the system refuses the write, MCM-U022 if a value is no array.
    """
    faults = [name for name, value in arrays.items() if not isinstance(value, np.ndarray)]
    if faults:
        raise CompileError(
            [
                Diagnostic(
                    "MCM-U022",
                    f"output {quote(name)} is a sequence or a map, not an array",
                    at=f"output {quote(name)}",
                )
                for name in faults
            ]
        )
    with whole_file(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, value in arrays.items():
            array = value.astype(str) if value.dtype == object else value
            if is_exotic(array.dtype):  # NumPy writes some of them as types that it cannot read
                array = np.ascontiguousarray(array).view(f"V{array.itemsize}").reshape(array.shape)
            # A ZipInfo of our own has a fixed date, where ZipFile.open would take today's.
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
