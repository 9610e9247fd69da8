"""onnxruntime's symbolic shape inference, for values that onnx's inference leaves open.

It knows the ops of onnxruntime's own domain and computes with sizes that have no number. The rules
of `onnxruntime.tools.symbolic_shape_infer` are applied op by op to the part of the graph that is
open. Its own driver stops at the first op that it does not know, writes a file into the working
folder then, and chooses between equal dimensions in an order that differs from process to process.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from mcm_compiler.graph.constants import consumed_values, is_deterministic
from mcm_compiler.graph.map_types import model_from_proto, shape_from_proto, type_from_proto
from mcm_compiler.ir.rewriting.writer import DataLocation, proto_with_references
from mcm_compiler.processes.bounded_child import ChildDiedError, answer_of_child, can_fork, may_fork

MAX_NODES = 5_000
"""Ops that are open or compute shapes, beyond which the step is left out: it takes up to a
millisecond for each of them."""

MAX_SHAPE_ELEMENTS = 64
"""Elements of a tensor that may be part of the computation of a shape."""

MAX_CPU_S = 15
MAX_GROWTH_BYTES = 1 << 30
"""Ends of the child against models that are made to outgrow it; `MAX_NODES` comes long before."""

_STANDARD = ("", "ai.onnx")
_INTEGERS = (ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL)


def infer_symbolically(model: ir.Model, missing: list[ir.Value]) -> None:
    """Sets types and sizes of the values of `missing` as far as they follow.

    Nothing that is known is changed: a result of another rank, size or element type is dropped. A
    dimension that stays symbolic is left open. Where inference fails in any way, or the system has
    no fork, the model stays as it is.

    Args:
        model: its main graph is in topological order.
        missing: open values of the main graph.
    """
    nodes = open_region(model, missing)
    if not nodes or len(nodes) > MAX_NODES or not can_fork():
        return
    if may_fork():
        _load_rules()
    try:
        answer = answer_of_child(_Region(model, nodes, missing), MAX_GROWTH_BYTES, MAX_CPU_S)
    except ChildDiedError:
        return
    by_name = {value.name: value for value in missing}
    for info in onnx.GraphProto.FromString(answer).value_info:
        _merge(by_name[info.name], info.type)


@dataclass(frozen=True)
class _Region:
    """The work of the child: types of `missing` as one graph message.

    It travels to another process as a message without large weights, which take no part.
    """

    model: ir.Model
    nodes: list[ir.Node]
    missing: list[ir.Value]

    def __call__(self) -> bytes:
        from mcm_compiler.ir.shapes.symbolic_rules import infer_region

        graph = onnx.GraphProto()
        graph.value_info.extend(infer_region(self.model, self.nodes, self.missing))
        return graph.SerializeToString()

    def __reduce__(self) -> tuple[Any, ...]:
        from mcm_compiler.ir.shapes.symbolic_rules import MAX_VALUE_BYTES

        def elsewhere(tensor: ir.TensorProtocol) -> DataLocation | None:
            small = tensor.dtype is ir.DataType.STRING or tensor.nbytes <= MAX_VALUE_BYTES
            return None if small else DataLocation("left-out", 0, tensor.nbytes)

        proto = proto_with_references(self.model, elsewhere)
        return _region, (proto.SerializeToString(), [value.name for value in self.missing])


def _load_rules() -> None:
    # In the process that forks, so that it is paid for once.
    importlib.import_module("mcm_compiler.ir.shapes.symbolic_rules")


def _region(data: bytes, names: list[str]) -> _Region:
    _load_rules()
    model = model_from_proto(onnx.ModelProto.FromString(data))
    made = {value.name: value for node in model.graph for value in node.outputs}
    missing = [made[name] for name in names]
    return _Region(model, open_region(model, missing), missing)


def open_region(model: ir.Model, missing: list[ir.Value]) -> list[ir.Node]:
    """The ops that make `missing`, and those that compute shapes for them, in graph order."""
    region: set[ir.Node] = set()
    pending = [node for value in missing if (node := value.producer()) is not None]
    while pending:
        node = pending.pop()
        if node in region:
            continue
        region.add(node)
        for value in consumed_values(node):
            maker = value.producer()
            if maker is not None and maker.graph is model.graph and _computes_shapes(value, maker):
                pending.append(maker)
    return [node for node in model.graph if node in region]


def _computes_shapes(value: ir.Value, maker: ir.Node) -> bool:
    """Return whether `value` may be a shape or a part of one; large tensors never are."""
    if value.dtype not in _INTEGERS or value.shape is None or not value.shape.is_static():
        return False
    sizes = value.shape.numpy()
    small = len(sizes) < 2 and all(size <= MAX_SHAPE_ELEMENTS for size in sizes)
    return small and maker.domain in _STANDARD and is_deterministic(maker)


def _merge(value: ir.Value, found: onnx.TypeProto) -> None:
    kind, shape = type_from_proto(found), shape_from_proto(found)
    if kind is None or kind.dtype is ir.DataType.UNDEFINED:
        return
    if value.type is not None and value.type != kind:
        return
    if isinstance(kind, ir.TensorType) and shape is not None:
        merged = _merged(value.shape, shape)
        if merged is None:
            return
        value.shape = merged
    if value.type is None:
        value.type = kind


def _merged(known: ir.Shape | None, found: ir.Shape) -> ir.Shape | None:
    """The sizes of both; None where they contradict each other or are no sizes."""
    sizes = [dim if isinstance(dim, int) else None for dim in found]
    if any(size is not None and size < 0 for size in sizes):
        return None
    if known is None:
        return ir.Shape(sizes)
    if len(known) != len(sizes):
        return None
    merged: list[int | ir.SymbolicDim | None] = []
    for dim, size in zip(known, sizes, strict=True):
        if isinstance(dim, int) and size is not None and dim != size:
            return None
        merged.append(dim if isinstance(dim, int) or size is None else size)
    return ir.Shape(merged)
