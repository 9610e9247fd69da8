"""A large model as pieces that onnxruntime opens one by one.

Opening takes onnxruntime 0.5 s for 10,000 ops and 24 s for 100,000 of a transformer; it grows with
the square of the ops. Pieces of consecutive ops take time in proportion to the ops, and give the
same bits, since graph optimisations are off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from mcm_compiler.execution.runner import open_session, run_session
from mcm_compiler.execution.stored_bytes import StoredBytes
from mcm_compiler.processes.garbage import give_back

PIECE_OPS = 1_000
"""Ops of a piece."""

LEAST_OPS = 5_000
"""Ops from which on a model is opened in pieces."""

KEPT_OPS = 20_000
"""Ops up to which all pieces of a model stay open between runs."""

INLINE_BYTES = 1 << 16
"""Weights up to this size are handed over with a piece that is opened for its turn."""

_LEAST_OP_BYTES = 16
"""A file has more bytes an op: the names of its type and of what it makes."""

_CUT_TYPES = frozenset(
    {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.DOUBLE,
        onnx.TensorProto.BOOL,
        onnx.TensorProto.INT8,
        onnx.TensorProto.INT16,
        onnx.TensorProto.INT32,
        onnx.TensorProto.INT64,
        onnx.TensorProto.UINT8,
        onnx.TensorProto.UINT16,
        onnx.TensorProto.UINT32,
        onnx.TensorProto.UINT64,
    }
)
"""Types of a model that is cut. Casts between 16-bit floats are dropped inside a graph alone, so
that a cut would add a rounding."""

_GRAPH_TYPES = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


class PiecewiseSession:
    """Sessions that run one after another in place of one of the whole model.

    Those of a model of at most `KEPT_OPS` stay open. Of a larger one each is opened for its turn,
    as an open session takes several kilobytes an op.

    Args:
        model: one that `pieces_of` cuts.
        folder: the folder of its external data.
        once: whether there is one run, so that no piece has to stay open.

    Raises:
        CompileError: as `open_session`; of pieces that do not stay open, once they run.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path, *, once: bool = False) -> None:
        self._stored = StoredBytes(folder)
        self._folder = folder
        self._outputs = [value.name for value in model.graph.output]
        self._pieces: list[Any] = []
        self._made: list[list[str]] = []
        self._last = dict[str, int]()
        stay = not once and len(model.graph.node) <= KEPT_OPS
        for k, piece in enumerate(pieces_of(model, PIECE_OPS)):
            self._pieces.append(open_session(piece, data_folder=folder) if stay else piece)
            self._made.append([value.name for value in piece.graph.output])
            self._last.update((value.name, k) for value in piece.graph.input)

    def run(
        self,
        batches: Sequence[Mapping[str, Any]],
        outputs: Sequence[str] | None,
        place: str | None,
    ) -> list[dict[str, Any]]:
        """Values of outputs by name for each batch, as `run_session` gives them."""
        names = self._outputs if outputs is None else list(outputs)
        values = [dict(feeds) for feeds in batches]
        wanted = set(names)
        for k, piece in enumerate(self._pieces):
            session = self._opened(piece) if isinstance(piece, onnx.ModelProto) else piece
            for known in values:
                known.update(run_session(session, known, self._made[k], place=place))
                for name in [n for n in known if self._last.get(n, -1) <= k and n not in wanted]:
                    del known[name]
            del session
        return [{name: known[name] for name in names} for known in values]

    def _opened(self, piece: onnx.ModelProto) -> Any:
        """A session of a piece; its small weights are inline, as each other one takes a mapping."""
        whole = onnx.ModelProto()
        whole.CopyFrom(piece)
        for tensor in whole.graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                data = self._stored.of(tensor, INLINE_BYTES)
                if data is not None:
                    tensor.ClearField("data_location")
                    del tensor.external_data[:]
                    tensor.raw_data = data
        return open_session(whole, data_folder=self._folder)


def open_large(path: Path, *, once: bool = False) -> Any:
    """A session for `run_large`: of the model of a file, or of its pieces if it is large.

    Args:
        path: the file.
        once: whether `run_large` will be called once.

    Raises:
        CompileError: as `open_session`, or else once it runs.
    """
    if path.stat().st_size < _LEAST_OP_BYTES * LEAST_OPS:
        return open_session(path)
    model = onnx.load(path, load_external_data=False)
    if len(model.graph.node) < LEAST_OPS or not _may_be_cut(model):
        del model
        return open_session(path)
    opened = PiecewiseSession(model, path.parent, once=once)
    del model
    give_back()
    return opened


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


def pieces_of(model: onnx.ModelProto, ops: int) -> Iterator[onnx.ModelProto]:
    """Models of `ops` consecutive ops each, which together are the model.

    A piece has the values that it reads from others as inputs, and those that others or the
    caller read as outputs. Its weights are those that it reads. Types and shapes of what it makes
    are declared as in the model.

    Args:
        model: one that `open_large` cuts.
        ops: most ops of a piece.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    infos = {v.name: v for v in (*graph.value_info, *graph.output)}
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.input)}
    chunks = [graph.node[i : i + ops] for i in range(0, len(graph.node), ops)]
    reads = [dict.fromkeys(_reads(chunk)) for chunk in chunks]
    made = [dict.fromkeys(n for node in chunk for n in node.output if n) for chunk in chunks]
    later = {value.name for value in graph.output}
    leaving: list[list[str]] = []
    for k in range(len(chunks) - 1, -1, -1):
        leaving.append([n for node in chunks[k] for n in node.output if n in later])
        later.update(reads[k])
    for k, chunk in enumerate(chunks):
        piece = onnx.ModelProto(
            ir_version=model.ir_version,
            opset_import=model.opset_import,
            functions=model.functions,
        )
        piece.graph.name = graph.name
        piece.graph.node.extend(chunk)
        for name in reads[k]:
            if name in weights:
                piece.graph.initializer.append(weights[name])
            elif name in types and name not in made[k]:
                piece.graph.input.append(
                    onnx.helper.make_tensor_value_info(name, types[name], None)
                )
        passed = dict.fromkeys(leaving[len(chunks) - 1 - k])
        piece.graph.output.extend(infos[n] if n in infos else _named(n) for n in passed)
        piece.graph.value_info.extend(infos[n] for n in made[k] if n in infos and n not in passed)
        yield piece


def _named(name: str) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name)


def _reads(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Names that ops read, with those that their subgraphs name, some of which are their own."""
    for node in nodes:
        yield from filter(None, node.input)
        for attribute in node.attribute:
            if attribute.type in _GRAPH_TYPES:
                for graph in (attribute.g, *attribute.graphs):
                    yield from _reads(graph.node)
                    yield from (value.name for value in graph.output)


def _may_be_cut(model: onnx.ModelProto) -> bool:
    """Whether every value has a known type that passes between pieces as it is."""
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
