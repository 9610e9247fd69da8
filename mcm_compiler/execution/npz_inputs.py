"""Arrays in `.npz` files, read without trust, and held against the inputs of a model."""

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
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.limits import MAX_RUN_BYTES
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
            return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # damaged archives and headers raise many types
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, zipfile.BadZipFile):
            reason = "it is not a whole .npz file"
        raise CompileError(
            Diagnostic(
                "MCM-U020",
                f"the input arrays cannot be read: {reason}",
                at=str(path),
                hint="write them with numpy.savez(path, name=array), without object arrays",
            )
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
        if math.prod(shape) * dtype.itemsize > entry.file_size:
            raise ValueError(f"{quote(entry.filename)} declares more than it holds")


def check_inputs(
    model: ir.Model, given: Mapping[str, Any], origin: str, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Holds a user's arrays against the inputs of a model.

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
        elif (reason := _misfit(value, array, shapes.get(name))) is not None:
            faults.append(
                Diagnostic(
                    "MCM-I052",
                    f"the array {reason}",
                    at=f"input {quote(name)}, {quote(origin)}",
                    hint="give one array of the input's type and shape",
                )
            )
    if faults:
        raise CompileError(faults)


def _misfit(value: ir.Value, array: np.ndarray, shape: tuple[int, ...] | None) -> str | None:
    if not isinstance(value.type, ir.TensorType):
        return f"is for a {value.type}, which no .npz file holds"
    dtype = value.type.dtype
    same = (
        array.dtype.kind in "OUS" if dtype is ir.DataType.STRING else array.dtype == dtype.numpy()
    )
    if not same:
        return f"is {array.dtype.name}, the input {dtype.numpy().name}"
    if shape is not None and tuple(shape) != array.shape:
        return f"has the shape {list(array.shape)}, and {list(shape)} is asked for"
    declared = value.shape
    fits = declared is None or (
        len(declared) == array.ndim
        and all(
            not isinstance(dim, int) or dim < 0 or dim == size
            for dim, size in zip(declared, array.shape, strict=True)
        )
    )
    return None if fits else f"has the shape {list(array.shape)}, the input {declared}"
