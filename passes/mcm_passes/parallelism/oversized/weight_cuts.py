"""Where an operator can be cut so that every piece holds a slice of its weight.

All cuts are along an output dimension: the pieces compute disjoint parts of the output, each by
the sums of the whole operator, and a `Concat` puts them together.

Equality to the bit needs more, because a matrix product's order of summation depends on its
shape in onnxruntime's kernels (MLAS, without pre-packing). With up to 64 columns for a thread it
sums twice as many terms before it adds them to the result, so that pieces keep `MIN_COLUMNS`.
A convolution with more filters than output positions expands its input at once, others segment by
segment, so that pieces stay on the side of the whole. Both were found by experiment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

MIN_COLUMNS = 192
"""Columns of the smallest piece of a product: more than 64 for each of two threads."""

ALIGNMENT = 64
"""Pieces start at multiples of this, where the kernels' vector tails and threads start too."""


@dataclass(frozen=True)
class WeightCut:
    """How an operator is cut.

    Attributes:
        operand: index of the input that is the weight.
        axis: axis of the weight that is cut.
        output_axis: axis of the output that the pieces share.
        bias: index of an input that is cut along its last axis with the weight, or None.
        min_extent: smallest extent of a piece along `axis` that keeps all bits.
    """

    operand: int
    axis: int
    output_axis: int
    bias: int | None
    min_extent: int


def weight_cut(node: ir.Node) -> WeightCut | None:
    """The cut of `node`, or None where its operator or its shapes allow none."""
    if node.domain not in ("", "ai.onnx"):
        return None
    match node.op_type:
        case "MatMul":
            return _matmul(node)
        case "Gemm":
            return _gemm(node)
        case "Gather":
            return _gather(node)
        case "Conv":
            return _conv(node)
        case _:
            return None


def piece_bounds(extent: int, pieces: int) -> list[tuple[int, int]]:
    """Cuts `range(extent)` in pieces of nearly equal size, at multiples of 64 where they allow it.

    Args:
        extent: at least `pieces`.
        pieces: number of pieces, at least 1.

    Returns:
        `(start, stop)` of each piece.
    """
    unit = ALIGNMENT if extent >= ALIGNMENT * pieces else 1
    blocks, larger = divmod(-(-extent // unit), pieces)
    bounds: list[tuple[int, int]] = []
    start = 0
    for piece in range(pieces):
        stop = min(extent, start + unit * (blocks + (piece < larger)))
        bounds.append((start, stop))
        start = stop
    return bounds


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of `value` where it is fully known."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return value.shape.numpy()


def _matmul(node: ir.Node) -> WeightCut | None:
    weight, output = static_shape(node.inputs[1]), static_shape(node.outputs[0])
    if weight is None or output is None or len(weight) != 2 or not output:
        return None
    return WeightCut(1, 1, len(output) - 1, None, _min_columns(node))


def _gemm(node: ir.Node) -> WeightCut | None:
    weight, output = static_shape(node.inputs[1]), static_shape(node.outputs[0])
    if weight is None or output is None:
        return None
    axis = 0 if node.attributes.get_int("transB", 0) else 1
    bias = None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        extents = static_shape(node.inputs[2])
        if extents is None:
            return None
        if extents and extents[-1] == weight[axis] > 1:
            bias = 2
    return WeightCut(1, axis, 1, bias, _min_columns(node))


def _gather(node: ir.Node) -> WeightCut | None:
    table, output = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if table is None or output is None or len(table) < 2:
        return None
    if node.attributes.get_int("axis", 0) not in (0, -len(table)):
        return None
    return WeightCut(0, len(table) - 1, len(output) - 1, None, 1)


def _conv(node: ir.Node) -> WeightCut | None:
    weight, output = static_shape(node.inputs[1]), static_shape(node.outputs[0])
    if weight is None or output is None or node.attributes.get_int("group", 1) != 1:
        return None
    bias = 2 if len(node.inputs) > 2 and node.inputs[2] is not None else None
    positions = math.prod(output[2:])
    least = positions + 1 if weight[0] > positions else 1
    return WeightCut(1, 0, 1, bias, max(least, ALIGNMENT))


def _min_columns(node: ir.Node) -> int:
    dtype = node.outputs[0].dtype
    return MIN_COLUMNS if dtype is None or dtype.is_floating_point() else 1
