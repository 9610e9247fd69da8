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
from mcm_compiler.processes.garbage import give_back

PIECE_OPS = 5_000
"""Ops of a piece."""

LEAST_OPS = 20_000
"""Ops from which on a model is opened in pieces."""

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


class PiecewiseSession:
    """Sessions that run one after another in place of one of the whole model.

    Args:
        pieces: of the model, in an order of its ops.
        folder: the folder of its external data.
        outputs: graph outputs of the model.
    """

    def __init__(
        self, pieces: Iterable[onnx.ModelProto], folder: Path, outputs: Sequence[str]
    ) -> None:
        self._sessions: list[Any] = []
        self._made: list[list[str]] = []
        self._last = dict[str, int]()
        for k, piece in enumerate(pieces):  # one is held at a time
            self._sessions.append(open_session(piece, data_folder=folder))
            self._made.append([value.name for value in piece.graph.output])
            self._last.update((value.name, k) for value in piece.graph.input)
        self._outputs = list(outputs)

    def run(
        self, feeds: Mapping[str, Any], outputs: Sequence[str] | None, place: str | None
    ) -> dict[str, Any]:
        """Values of outputs by name, as `run_session` gives them."""
        names = self._outputs if outputs is None else list(outputs)
        values = dict(feeds)
        wanted = set(names)
        for k, session in enumerate(self._sessions):
            values.update(run_session(session, values, self._made[k], place=place))
            for name in [n for n in values if self._last.get(n, -1) <= k and n not in wanted]:
                del values[name]
        return {name: values[name] for name in names}


def open_large(path: Path) -> Any:
    """A session for `run_large`: of the model of a file, or of its pieces if it is large.

    Raises:
        CompileError: as `open_session`.
    """
    model = onnx.load(path, load_external_data=False)
    if len(model.graph.node) < LEAST_OPS or not _may_be_cut(model):
        del model
        return open_session(path)
    outputs = [value.name for value in model.graph.output]
    opened = PiecewiseSession(pieces_of(model, PIECE_OPS), path.parent, outputs)
    del model
    give_back()
    return opened


def run_large(
    session: Any,
    feeds: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
    *,
    place: str | None = None,
) -> dict[str, Any]:
    """Runs what `open_large` gave, as `run_session`."""
    if isinstance(session, PiecewiseSession):
        return session.run(feeds, outputs, place)
    return run_session(session, feeds, outputs, place=place)


def pieces_of(model: onnx.ModelProto, ops: int) -> Iterator[onnx.ModelProto]:
    """Models of `ops` consecutive ops each, which together are the model.

    A piece has the values that it reads from others as inputs, and those that others or the
    caller read as outputs. Its weights are those that it reads.

    Args:
        model: one that `open_large` cuts.
        ops: most ops of a piece.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.input)}
    chunks = [graph.node[i : i + ops] for i in range(0, len(graph.node), ops)]
    reads = [dict.fromkeys(name for node in chunk for name in _reads(node)) for chunk in chunks]
    made = [{name for node in chunk for name in node.output if name} for chunk in chunks]
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
        for name in leaving[len(chunks) - 1 - k]:
            piece.graph.output.add().name = name
        yield piece


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names that an op reads, with those that its subgraphs name, some of which are their own."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs) if _has_graphs(attribute) else ():
            for inner in graph.node:
                yield from _reads(inner)
            yield from (value.name for value in graph.output)


def _has_graphs(attribute: onnx.AttributeProto) -> bool:
    return attribute.HasField("g") or bool(attribute.graphs)


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
