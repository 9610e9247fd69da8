"""Types and shapes out of protobuf, straight into the values of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
import onnx_ir as ir

from mcm_compiler.graph.constants import graphs_of
from mcm_compiler.graph.map_types import shape_from_proto, type_from_proto


def take_types(model: ir.Model, inferred: Sequence[onnx.GraphProto]) -> None:
    """Gives the values of `model` the types and shapes of `inferred`, where those say something.

    Args:
        model: changed in place; inputs of the main graph are left as they are.
        inferred: of the main graph and all within it, in the order of `all_graphs`.
    """
    shared: dict[tuple[int | None, ...], ir.Shape] = {}
    for graph, typed in zip(graphs_of(model), inferred, strict=True):
        values = {v.name: v for node in graph for v in node.outputs if v.name}
        if graph is not model.graph:
            values |= {v.name: v for v in graph.inputs if v.name}
        for known in (typed.value_info, typed.input, typed.output):
            _take(values, known, shared)


def take_types_of(values: Iterable[ir.Value], typed: onnx.GraphProto) -> None:
    """The same for some values of the main graph alone."""
    named = {value.name: value for value in values if value.name}
    for known in (typed.value_info, typed.output):
        _take(named, known, {})


def _take(
    values: dict[str, ir.Value],
    known: Iterable[onnx.ValueInfoProto],
    shared: dict[tuple[int | None, ...], ir.Shape],
) -> None:
    for info in known:
        value = values.get(info.name)
        if value is None:
            continue
        kind = type_from_proto(info.type)
        if kind is not None and kind.dtype is not ir.DataType.UNDEFINED:
            value.type = kind
        shape = shape_from_proto(info.type, shared)
        if shape is not None:
            # onnx computes negative sizes where a kernel is larger than what it slides over.
            for axis, dim in enumerate(shape.dims):
                if isinstance(dim, int) and dim < 0:
                    shape = shape.copy(frozen=False)
                    shape[axis] = None
            value.shape = shape
