"""A large model as pieces that onnxruntime opens one by one.

Opening takes onnxruntime 0.5 s for 10,000 ops and 24 s for 100,000 of a transformer; it grows with
the square of the ops. Pieces of consecutive ops take time in proportion to the ops, and give the
same bits, since graph optimisations are off.
"""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import open_session, run_session

PIECE_OPS = 480
"""Ops of a piece."""

LEAST_OPS = 2_000
"""Ops from which on a model is opened in pieces."""

KEPT_OPS = 20_000
"""Ops of pieces that stay open, each of which takes several kilobytes."""

INLINE_BYTES = 1 << 16
"""Weights up to this size are handed over with a piece."""

_ANY_OPERANDS = frozenset(
    {"MatMul", "Gemm", "Add", "Sub", "Mul", "Div", "LayerNormalization"}
)  # fmt: skip
"""Ops of the default domain whose kernels compute the same bits whether an operand is constant."""

_LEAST_OP_BYTES = 16
"""A file has more bytes an op: the names of its type and of what it makes."""

_CUT_TYPES = frozenset(
    onnx.TensorProto.DataType.Value(name)
    for name in ("FLOAT", "DOUBLE", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16",
                 "UINT32", "UINT64")
)  # fmt: skip
"""Types of a model that is cut. Casts between 16-bit floats are dropped inside a graph alone, so
that a cut would add a rounding."""

_GRAPH_TYPES = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


class PiecewiseSession:
    """Sessions that run one after another in place of one of the whole model.

    Large models repeat their layers. Pieces that differ in names and in weights alone share a
    session, which takes those weights as inputs.

    Args:
        model: one that `may_be_cut`.
        folder: the folder of its external data.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path) -> None:
        self._pieces = Pieces(model, PIECE_OPS)
        self._stored = StoredBytes(folder)
        self._folder = folder
        self._outputs = [value.name for value in model.graph.output]
        self._open: dict[bytes, Any] = {}

    def run(
        self, batches: Sequence[Mapping[str, Any]], outputs: Sequence[str] | None, place: str | None
    ) -> list[dict[str, Any]]:
        """Values of outputs by name for each batch, as `run_session` gives them.

        Raises:
            CompileError: as `open_session` and `run_session`.
        """
        names = self._outputs if outputs is None else list(outputs)
        values = [dict(feeds) for feeds in batches]
        last = self._pieces.last_reader
        wanted = set(names)
        for k in range(len(self._pieces.chunks)):
            session, piece = self._opened(k)
            for known in values:
                feeds = {own: known[name] for name, own in piece.inputs.items() if name in known}
                feeds |= piece.weights
                made = run_session(session, feeds, list(piece.outputs.values()), place=place)
                known.update((name, made[own]) for name, own in piece.outputs.items())
                for name in [n for n in known if last.get(n, -1) <= k and n not in wanted]:
                    del known[name]
        return [{name: known[name] for name in names} for known in values]

    def _opened(self, k: int) -> tuple[Any, Piece]:
        """A session for piece `k`, and the piece."""
        piece = self._pieces.alike(k, self._stored)
        form = piece.model.SerializeToString(deterministic=True)
        key = hashlib.sha256(form).digest()
        if key not in self._open:
            try:
                session = open_session(form, data_folder=self._folder)
            except CompileError:
                # Under its own names, by which the reason is to be given.
                piece = self._pieces.named(k)
                return open_session(piece.model, data_folder=self._folder), piece
            if self._open and len(self._open) * PIECE_OPS >= KEPT_OPS:
                del self._open[next(iter(self._open))]
            self._open[key] = session
        return self._open[key], piece


def open_large(path: Path, outputs: Collection[str] | None = None) -> Any:
    """A session for `run_large`: of the model of a file, or of its pieces if it is large.

    Args:
        path: the file.
        outputs: those of its outputs to which the model is reduced, with what they depend on.

    Raises:
        CompileError: as `open_session`; of a large model, once it runs.
    """
    if outputs is None and path.stat().st_size < _LEAST_OP_BYTES * LEAST_OPS:
        return open_session(path)
    model = onnx.load(path, load_external_data=False)
    whole = outputs is None or _reduce(model, outputs)
    if len(model.graph.node) < LEAST_OPS or not may_be_cut(model):
        return open_session(path) if whole else open_session(model, data_folder=path.parent)
    return PiecewiseSession(model, path.parent)


def run_large(
    session: Any,
    batches: Sequence[Mapping[str, Any]],
    outputs: Sequence[str] | None = None,
    *,
    place: str | None = None,
) -> list[dict[str, Any]]:
    """Runs what `open_large` gave on each of `batches`, as `run_session`."""
    if isinstance(session, PiecewiseSession):
        return session.run(batches, outputs, place)
    return [run_session(session, feeds, outputs, place=place) for feeds in batches]


def _reduce(model: onnx.ModelProto, outputs: Collection[str]) -> bool:
    """Leaves what some outputs depend on, and reports whether that is all."""
    graph, wanted = model.graph, set(outputs)
    nodes: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(node.output):
            nodes.append(node)
            wanted.update(_reads([node]))
    if len(nodes) == len(graph.node):
        return True
    kept: dict[str, Any] = {
        "node": nodes[::-1],
        "input": [value for value in graph.input if value.name in wanted],
        "output": [value for value in graph.output if value.name in outputs],
        "initializer": [tensor for tensor in graph.initializer if tensor.name in wanted],
    }
    graph.CopyFrom(onnx.GraphProto(name=graph.name, value_info=graph.value_info, **kept))
    return False


@dataclass
class Piece:
    """Some consecutive ops of a model, as a model.

    Attributes:
        model: the ops.
        inputs: names of its inputs, by those of the whole model.
        outputs: likewise.
        weights: its other inputs.
    """

    model: onnx.ModelProto
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    weights: dict[str, Any] = field(default_factory=dict[str, Any])


class _Own(dict[str, str]):
    """Names as they are."""

    def __missing__(self, name: str) -> str:
        return name


class _Numbers(dict[str, str]):
    """Names in the order in which they are first used; what is left out has none."""

    def __missing__(self, name: str) -> str:
        self[name] = found = name and str(len(self))
        return found


class Pieces:
    """Models of consecutive ops each, which together are one model.

    A piece has the values that it reads from others as inputs, and those that others or the
    caller read as outputs. Its weights are those that it reads. Types and shapes of what it makes
    are declared as in the model.

    Args:
        model: one that `may_be_cut`.
        ops: most ops of a piece.
    """

    def __init__(self, model: onnx.ModelProto, ops: int) -> None:
        graph = model.graph
        self._model = model
        self._held = {tensor.name: tensor for tensor in graph.initializer}
        self._infos = {v.name: v for v in (*graph.value_info, *graph.output)}
        self._given = {v.name: v for v in graph.input}
        self.chunks = [graph.node[i : i + ops] for i in range(0, len(graph.node), ops)]
        self._reads = [dict.fromkeys(_reads(chunk)) for chunk in self.chunks]
        self.last_reader = {name: k for k, names in enumerate(self._reads) for name in names}
        self._ends = {value.name for value in graph.output}

    def named(self, k: int) -> Piece:
        """Piece `k` with the names of the model, and with its weights."""
        piece = self._with_values(k, _Own(), {})
        piece.model.graph.name = self._model.graph.name
        piece.model.graph.node.extend(self.chunks[k])
        return piece

    def alike(self, k: int, stored: StoredBytes) -> Piece:
        """Piece `k` with numbers for names, and with weights that may be any values as inputs.

        Bodies name values of the model themselves: a piece with one is as `named`.
        """
        chunk = self.chunks[k]
        if any(a.type in _GRAPH_TYPES for node in chunk for a in node.attribute):
            return self.named(k)
        names = _Numbers()
        number, fixed = names.__getitem__, set[str]()
        piece = onnx.GraphProto()
        for node in chunk:
            op = piece.node.add(op_type=node.op_type, domain=node.domain, overload=node.overload)
            op.input.extend(map(number, node.input))
            op.output.extend(map(number, node.output))
            if node.attribute:
                op.attribute.extend(node.attribute)
            if node.op_type not in _ANY_OPERANDS or node.domain:
                fixed.update(node.input)
        given = {
            name: data
            for name in self._reads[k]
            if name in self._held
            and name not in fixed
            and (data := stored.array(self._held[name])) is not None
        }
        found = self._with_values(k, names, given)
        for tensor in found.model.graph.initializer:
            _put_inline(tensor, stored)
        found.model.graph.node.extend(piece.node)
        return found

    def _with_values(self, k: int, names: dict[str, str], given: Mapping[str, Any]) -> Piece:
        """Piece `k` without its ops.

        Args:
            k: its place.
            names: of values in it.
            given: weights that are inputs.
        """
        model = self._model
        piece = Piece(
            onnx.ModelProto(
                ir_version=model.ir_version,
                opset_import=model.opset_import,
                functions=model.functions,
            )
        )
        graph, infos = piece.model.graph, self._infos
        made = dict.fromkeys(name for node in self.chunks[k] for name in node.output if name)
        for name in self._reads[k]:
            if name in given:
                own = names[name]
                piece.weights[own] = given[name]
                graph.input.append(
                    onnx.helper.make_tensor_value_info(
                        own, self._held[name].data_type, self._held[name].dims
                    )
                )
            elif name in self._held:
                tensor = graph.initializer.add()
                tensor.CopyFrom(self._held[name])
                tensor.name = names[name]
            elif (name in infos or name in self._given) and name not in made:
                own = piece.inputs[name] = names[name]
                known = (infos.get(name) or self._given[name]).type.tensor_type
                graph.input.add(name=own).type.tensor_type.elem_type = known.elem_type
        for name in made:
            own = names[name]
            if name in self._ends or self.last_reader.get(name, k) > k:
                piece.outputs[name] = own
                graph.output.add(name=own)
            elif name in infos:
                graph.value_info.add(name=own)
            if name in infos:
                ends = graph.output if name in piece.outputs else graph.value_info
                ends[-1].type.CopyFrom(infos[name].type)
        return piece


def _put_inline(tensor: onnx.TensorProto, stored: StoredBytes) -> None:
    """Has a small tensor hold its data, as each other one takes a mapping."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        data = stored.of(tensor, INLINE_BYTES)
        if data is not None:
            tensor.ClearField("data_location")
            del tensor.external_data[:]
            tensor.raw_data = data


def _reads(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Names that ops read, with those that their subgraphs name, some of which are their own."""
    for node in nodes:
        yield from filter(None, node.input)
        for attribute in node.attribute:
            if attribute.type in _GRAPH_TYPES:
                for graph in (attribute.g, *attribute.graphs):
                    yield from _reads(graph.node)
                    yield from (value.name for value in graph.output)


def may_be_cut(model: onnx.ModelProto) -> bool:
    """Return whether every value has a known type that passes between pieces as it is."""
    graph = model.graph
    if graph.sparse_initializer:
        return False
    values = (*graph.input, *graph.value_info, *graph.output)
    if any(v.type.tensor_type.elem_type not in _CUT_TYPES for v in values):
        return False
    if any(tensor.data_type not in _CUT_TYPES for tensor in graph.initializer):
        return False
    known = {v.name for v in values}
    inputs = {v.name for v in graph.input}
    if any(tensor.name in inputs for tensor in graph.initializer):
        return False  # a weight that may be given
    made = [name for node in graph.node for name in node.output if name]
    return known.issuperset(made)


class StoredBytes:
    """Copies of bytes, whose files are mapped once.

    Args:
        folder: of the external data; files outside it are not read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, mmap.mmap | None] = {}

    def of(self, tensor: onnx.TensorProto, most: int) -> bytes | None:
        """The bytes of `tensor`.

        Args:
            tensor: of a protobuf.
            most: size from which on a tensor stays where it is.

        Returns:
            A copy; None for more than `most` bytes, and where they are not plain to find.
        """
        data = self._view(tensor)
        return None if data is None or not 0 < len(data) <= most else bytes(data)

    def array(self, tensor: onnx.TensorProto) -> np.ndarray | None:
        """A tensor of 32-bit floats that is not copied; None for others, as `of`."""
        data = self._view(tensor)
        if data is None or tensor.data_type != onnx.TensorProto.FLOAT:
            return None
        plain = len(data) == 4 * math.prod(tensor.dims)
        return np.frombuffer(data, "<f4").reshape(tensor.dims) if plain else None

    def _view(self, tensor: onnx.TensorProto) -> bytes | memoryview | None:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return tensor.raw_data
        entries = {entry.key: entry.value for entry in tensor.external_data}
        try:
            start, size = int(entries.get("offset", "0")), int(entries["length"])
        except (KeyError, ValueError):
            return None
        file = self._file(entries.get("location", ""))
        if file is None or not 0 < size <= len(file) - start or start < 0:
            return None
        return memoryview(file)[start : start + size]

    def _file(self, name: str) -> mmap.mmap | None:
        if name not in self._files:
            self._files[name] = None
            path = self._folder / name
            # Whatever is not a plain file of the folder is left to readers that check locations.
            plain = Path(name).name == name and path.is_file() and not path.is_symlink()
            if plain and path.stat().st_size:
                with path.open("rb") as file:
                    self._files[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._files[name]
