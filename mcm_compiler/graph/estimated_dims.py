"""Dimensions whose size depends on data: known to be open, with the size to plan for.

Such a dimension is symbolic in every emitted model, because a runtime holds a static one against
what it is given. Its name ends in the size that costs and memory plans count with, which is an
upper bound where there is one, and else what a run with random inputs gave. Names are distinct:
onnxruntime takes dimensions of one name for equal.
"""

from __future__ import annotations

import math
import re

import onnx_ir as ir

from mcm_compiler.graph.static_shapes import static_dims

_NAME = re.compile(r"/(\d+)=(\d+)\?$")


def estimated_dim(value_name: str, axis: int, size: int) -> ir.SymbolicDim:
    """The open dimension `axis` of a value, planned with `size` elements."""
    return ir.SymbolicDim(f"{value_name}/{axis}={size}?")


def dim_size(dim: int | ir.SymbolicDim) -> int:
    """The size to plan with: of an estimated dimension its estimate, of one that is open 1."""
    if isinstance(dim, int):
        return dim
    match = _NAME.search(dim.value or "")
    return int(match[2]) if match else 1


def is_estimated(dim: int | ir.SymbolicDim) -> bool:
    """Return whether `dim` is open, but planned with a size."""
    return isinstance(dim, ir.SymbolicDim) and _NAME.search(dim.value or "") is not None


def upper_bound(node: ir.Node) -> tuple[int, ...] | None:
    """The largest shape of the first output of an op whose output depends on data.

    NonZero finds at most all elements, Unique and Compress keep at most all, and
    NonMaxSuppression at most the given number of boxes for each batch and class.

    Returns:
        None for other ops, and where the shapes of the inputs are not static.
    """
    if node.domain not in ("", "ai.onnx"):
        return None
    dims = [None if v is None else static_dims(v.shape) for v in node.inputs]
    first = dims[0] if dims else None
    if first is None:
        return None
    match node.op_type:
        case "NonZero":
            return (len(first), math.prod(first))
        case "Unique" | "Compress":
            axis = node.attributes.get("axis")
            if axis is None:
                return (math.prod(first),)
            return first
        case "NonMaxSuppression":
            scores = dims[1]
            if scores is None or len(scores) != 3:
                return None
            boxes = _constant_int(node, 2)
            each = scores[2] if boxes is None else min(max(boxes, 0), scores[2])
            return (scores[0] * scores[1] * each, 3)
        case _:
            return None


def _constant_int(node: ir.Node, position: int) -> int | None:
    value = node.inputs[position] if len(node.inputs) > position else None
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return int(tensor.numpy().reshape(-1)[0]) if tensor is not None and tensor.size == 1 else None
