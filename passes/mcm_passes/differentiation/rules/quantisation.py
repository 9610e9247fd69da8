"""Gradients of dequantized values by their scales; what is rounded has none."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule
from mcm_passes.differentiation.rules import operands


def _dequantized(request: GradientRequest) -> operands.Gradients:
    """`Σ g (x - zero)` over the elements that a scale is for: one, an axis, or blocks of one."""
    if not request.wanted[1]:
        return operands.placed(None, request)
    ops, x, scale, gradient = (
        request.ops,
        operands.given(request, 0),
        operands.given(request, 1),
        operands.arriving(request),
    )
    shape, scales = request.shape(x), request.shape(scale)
    rank = len(shape)
    spread = list(scales)
    if len(scales) == 1 and rank > 1:
        axis = int(request.attribute("axis", 1)) % rank
        spread = [
            size if scales[0] != 1 and place == axis else 1 for place, size in enumerate(shape)
        ]
    value = ops.op("Cast", x, to=_type(gradient))
    zero = operands.operand(request, 2)
    blocked = [s if s in (0, 1, size) else 0 for s, size in zip(spread, shape[:rank], strict=False)]
    block = int(request.attribute("block_size", 0))
    if zero is not None:
        wide = operands.reshaped(ops, ops.op("Cast", zero, to=_type(gradient)), spread)
        if block and 0 in blocked:
            wide = _repeated(request, wide, blocked.index(0), block, shape)
        value = ops.op("Sub", value, wide)
    product = ops.op("Mul", gradient, value)
    if block and 0 in blocked:
        axis = blocked.index(0)
        cut = [*shape[:axis], spread[axis], block, *shape[axis + 1 :]]
        summed = ops.op(
            "ReduceSum",
            operands.reshaped(ops, product, cut),
            operands.ints(ops, [axis + 1]),
            keepdims=0,
        )
        return operands.placed(operands.reshaped(ops, summed, scales), request, 1)
    axes = [place for place in range(rank) if place >= len(spread) or spread[place] != shape[place]]
    if axes:
        product = ops.op("ReduceSum", product, operands.ints(ops, axes), keepdims=1)
    return operands.placed(operands.reshaped(ops, product, scales), request, 1)


def _repeated(
    request: GradientRequest, value: ir.Value, axis: int, block: int, shape: tuple[int, ...]
) -> ir.Value:
    """Each place of an axis as often as a block is long."""
    ops = request.ops
    wide = ops.op("Unsqueeze", value, operands.ints(ops, [axis + 1]))
    own = [int(size) for size in wide.shape.numpy()] if wide.shape is not None else []
    own[axis + 1] = block
    return operands.reshaped(ops, ops.op("Expand", wide, operands.ints(ops, own)), shape)


def _type(value: ir.Value) -> int:
    assert value.dtype is not None
    return int(value.dtype)


RULES: dict[str, GradientRule] = {"DequantizeLinear": _dequantized}
