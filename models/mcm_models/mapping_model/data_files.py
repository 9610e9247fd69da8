"""Data sets on disk: arrays in one `.npz` file, with a card among them.

Files may come from anywhere. Sizes are looked at before memory is taken, nothing is unpickled, a
digest over all arrays reveals tampering, and what cannot be learned from is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast, get_type_hints

import numpy as np
from msgspec import Struct, defstruct, structs

from mcm_compiler.contracts.fabrics.fabric import KINDS, Fabric, MappingProblem, Mappings
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.text.json_text import UnreadableError, parse_json, record_of
from mcm_models.cards import checkpoint_bytes
from mcm_models.mapping_model.data_set import Learned, MappingData, MeasuredGraph, faults_of_data

MAX_FILE_BYTES = 1 << 26
"""Largest data set that is read: 64 MiB, many times the project's own."""

MAX_BYTES = 1 << 28
"""Of all its arrays together in memory: 256 MiB."""

FORMAT = 1
"""Rises when arrays change their meaning."""

_FABRIC = ("kind", "switch", "channel")
_PER_UNIT = ("kind", "op", "stage", "firings", "cycles", "burst", "depth", "memory_bytes")
_PER_STREAM = ("source", "flits")
_LABELS = ("period_cycles", "latency_cycles", "error", "origin")
_NARROW = (np.int8, np.int16, np.int32)
_WIDE = {"firings", "cycles", "burst", "memory_bytes", "flits"}

Arrays = dict[str, np.ndarray]


class _Card(Struct, frozen=True):
    """Card of a data set, next to its arrays."""

    format: int
    learned: dict[str, str]
    fabric: dict[str, Any]
    names: list[str]
    families: list[str]
    stages: list[list[str]]
    seed: int
    digest: str
    left_out: int = 0


def save_data(path: Path, data: MappingData) -> None:
    """Writes a data set at once; equal data make equal files."""
    arrays, card = _arrays_of(data), _card_of(data)
    card["digest"] = _digest(arrays, card)
    text = json.dumps(card, sort_keys=True).encode()
    arrays["card"] = np.frombuffer(text, np.uint8)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in sorted(arrays.items()):
            # A ZipInfo of our own has a fixed date.
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    write_whole(path, stream.getvalue())


def data_digest(data: MappingData) -> str:
    """The hash of a data set, which stands in its file and in cards of what learned from it."""
    return _digest(_arrays_of(data), _card_of(data))


def load_data(path: Path) -> MappingData:
    """Reads and checks a data set.

    Raises:
        CompileError: MCM-M054 if the file cannot be read or is no such data set, MCM-M055 if its
            arrays are not those that were written, MCM-M056 if nothing should be learned from it.
    """
    try:
        content = checkpoint_bytes(path, MAX_FILE_BYTES)
        arrays = _read_arrays(content)
        text = arrays.pop("card").tobytes().decode()
        plain = parse_json(text)
        card = record_of(plain, _Card)
        numbers = structs.asdict(record_of(card.fabric, _fabric_numbers(), "fabric"))
        if card.format != FORMAT:
            raise ValueError(f"it has the format {card.format}, and this compiler reads {FORMAT}")
        unsigned = {key: value for key, value in plain.items() if key != "digest"}
        tampered = card.digest != _digest(arrays, unsigned)
        data = None if tampered else _data_of(arrays, card, numbers)
    except (
        OSError,
        EOFError,
        zipfile.BadZipFile,
        UnreadableError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        NotImplementedError,
    ) as error:
        message = f"the data set is damaged or none: {quote(str(error))}"
        raise _error("MCM-M054", message, path) from error
    if data is None:
        raise _error("MCM-M055", "the data set is not as it was written: digests differ", path)
    faults = faults_of_data(data.fabric, data.graphs)
    if faults:
        raise _error("MCM-M056", f"nothing can be learned from the data set: {faults[0]}", path)
    return data


def _read_arrays(content: bytes) -> Arrays:
    arrays: Arrays = {}
    left = MAX_BYTES
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            left -= entry.file_size
            if left < 0:
                raise ValueError(f"it holds more than {MAX_BYTES} bytes")
            if name in arrays:
                raise ValueError(f"it holds {name} twice")
            try:
                with archive.open(entry) as file:
                    arrays[name] = _read_array(cast("BinaryIO", file), entry.file_size)
            except Exception as error:  # damaged entries and headers raise many types
                raise ValueError(str(error)) from error
    return arrays


def _read_array(file: BinaryIO, size: int) -> np.ndarray:
    """An array of numbers that needs no more memory than its file has bytes."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"an array has the version {version}")
    shape, fortran, kind = np.lib.format.read_array_header_1_0(file)
    # Of objects nothing is made: what they would do is not known.
    if kind.kind not in "iuf" or fortran or len(shape) != 1:
        raise ValueError(f"an array is {kind} {list(shape)}, not a row of numbers")
    wanted = shape[0] * kind.itemsize
    if wanted > size:
        raise ValueError(f"an array of {wanted} bytes is said to be in {size}")
    found = file.read(wanted)
    if len(found) != wanted or file.read(1):
        raise ValueError("an array is cut off, or goes on beyond its end")
    return np.frombuffer(found, kind)


def _card_of(data: MappingData) -> dict[str, Any]:
    """All of the card but its digest."""
    card = {
        "format": FORMAT,
        "learned": dataclasses.asdict(data.learned),
        "fabric": {name: getattr(data.fabric, name) for name in _numbers()},
        "names": [graph.problem.name for graph in data.graphs],
        "families": [graph.family for graph in data.graphs],
        "stages": [list(graph.problem.stages) for graph in data.graphs],
        "seed": data.seed,
    }
    # Missing where there are none, so that most data sets keep the digest that they always had.
    return card | {"left_out": data.left_out} if data.left_out else card


def _arrays_of(data: MappingData) -> Arrays:
    graphs = data.graphs
    problems = [graph.problem for graph in graphs]
    arrays: Arrays = {f"fabric_{name}": getattr(data.fabric, name) for name in _FABRIC}
    for name in (*_PER_UNIT, *_PER_STREAM, "leaf"):
        arrays[name] = _joined([getattr(problem, name) for problem in problems])
    arrays["units"] = np.array([problem.num_units for problem in problems], np.int64)
    arrays["streams"] = np.array([problem.num_streams for problem in problems], np.int64)
    arrays["destinations"] = _joined([np.diff(problem.leaf_ptr) for problem in problems])
    arrays["mappings"] = np.array([len(graph) for graph in graphs], np.int64)
    arrays["bound_cycles"] = np.array([graph.bound_cycles for graph in graphs], np.float64)
    arrays["site"] = _joined([graph.mappings.site.reshape(-1) for graph in graphs])
    arrays["turn"] = _joined([graph.mappings.turn.reshape(-1) for graph in graphs])
    for name in _LABELS:
        arrays[name] = _joined([getattr(graph, name) for graph in graphs])
    return {name: _narrow(array) for name, array in arrays.items()}


def _joined(rows: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(rows) if rows else np.empty(0)


def _narrow(array: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as hold them."""
    if array.dtype.kind != "i" or not array.size:
        return np.ascontiguousarray(array)
    low, high = int(array.min()), int(array.max())
    for kind in _NARROW:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return np.ascontiguousarray(array, kind)
    return np.ascontiguousarray(array, np.int64)


def _digest(arrays: Mapping[str, np.ndarray], card: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(card, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.size};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@cache
def _fabric_numbers() -> type[Struct]:
    """All fields of a fabric but its arrays, each of its type."""
    hints = get_type_hints(Fabric)
    fields = [(name, hints[name]) for name in _numbers()]
    return defstruct("FabricNumbers", fields, frozen=True, forbid_unknown_fields=True)


def _numbers() -> list[str]:
    return [f.name for f in dataclasses.fields(Fabric) if f.name not in _FABRIC]


def _data_of(arrays: Arrays, card: _Card, numbers: Mapping[str, Any]) -> MappingData:
    sites: dict[str, Any] = {name: arrays[f"fabric_{name}"].astype(np.int32) for name in _FABRIC}
    fabric = Fabric(**numbers, **sites)
    if not len(fabric.kind) == len(fabric.switch) == len(fabric.channel):
        raise ValueError("sites of its fabric differ in number")
    if not np.isin(fabric.kind, range(len(KINDS))).all():
        raise ValueError("sites of its fabric are of no known kind")
    rows = _Rows(arrays)
    graphs = tuple(
        _graph_of(rows, number, (name, family), tuple(stages))
        for number, (name, family, stages) in enumerate(
            zip(card.names, card.families, card.stages, strict=True)
        )
    )
    if len(graphs) != len(arrays["units"]) or not (graphs or card.left_out > 0):
        raise ValueError(f"it has {len(arrays['units'])} graphs and {len(graphs)} names")
    return MappingData(Learned(**card.learned), fabric, graphs, card.seed, card.left_out)


class _Rows:
    """Hands out arrays piece by piece, from the first on."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.begin = dict.fromkeys(arrays, 0)

    def next(self, name: str, count: int, kind: type[np.generic]) -> np.ndarray:
        begin = self.begin[name]
        if not 0 <= count <= len(self.arrays[name]) - begin:
            raise ValueError(f"{name} is too short")
        self.begin[name] = begin + count
        return self.arrays[name][begin : begin + count].astype(kind)


def _graph_of(
    rows: _Rows, number: int, names: tuple[str, str], stages: tuple[str, ...]
) -> MeasuredGraph:
    units, streams, count = (
        int(rows.arrays[name][number]) for name in ("units", "streams", "mappings")
    )
    widths = rows.next("destinations", streams, np.int32)
    ptr = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
    parts = {
        name: rows.next(name, size, np.int64 if name in _WIDE else np.int32)
        for names_of, size in ((_PER_UNIT, units), (_PER_STREAM, streams))
        for name in names_of
    }
    problem = MappingProblem(
        name=names[0],
        stages=stages,
        leaf_ptr=ptr,
        leaf=rows.next("leaf", int(ptr[-1]), np.int32),
        **cast("Any", parts),
    )
    site = rows.next("site", count * units, np.int32).reshape(count, units)
    turn = rows.next("turn", count * streams, np.int32).reshape(count, streams)
    labels: Sequence[np.ndarray] = [
        rows.next(name, count, np.int32 if name == "origin" else np.float64) for name in _LABELS
    ]
    bound = float(rows.arrays["bound_cycles"][number])
    return MeasuredGraph(names[1], problem, bound, Mappings(site, turn), *labels)


def _error(code: str, message: str, path: Path) -> CompileError:
    return CompileError.of(code, message, at=quote(str(path)))
