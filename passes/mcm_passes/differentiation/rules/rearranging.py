"""Gradients of ops that move elements to other places of the same number or of more."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule, NotDifferentiable
from mcm_passes.differentiation.composition import composed, text
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    filled,
    given,
    ints,
    known_numbers,
    operand,
    placed,
    reshaped,
)


def _blocks_forward(request: GradientRequest) -> list[ir.Value]:
    """`DepthToSpace` and `SpaceToDepth` as a transposition between two shapes."""
    ops, x = request.ops, given(request, 0)
    batch, channels, height, width = request.shape(x)
    b = int(request.attribute("blocksize", 1))
    block_first = text(request, "mode", "DCR") == "DCR"
    if request.node.op_type == "DepthToSpace":
        less = channels // (b * b)
        split = (batch, b, b, less, height, width) if block_first else (
            batch, less, b, b, height, width
        )  # fmt: skip
        order = [0, 3, 4, 1, 5, 2] if block_first else [0, 1, 4, 2, 5, 3]
    else:
        split = (batch, channels, height // b, b, width // b, b)
        order = [0, 3, 5, 1, 2, 4] if block_first else [0, 1, 3, 5, 2, 4]
    moved = ops.op("Transpose", reshaped(ops, x, split), perm=order)
    return [reshaped(ops, moved, request.shape(request.node.outputs[0]))]


def _tile(request: GradientRequest) -> Gradients:
    """The sum over all copies."""
    ops, x = request.ops, given(request, 0)
    shape = request.shape(x)
    repeats = known_numbers(request, 1) or []
    pairs = [number for pair in zip(repeats, shape, strict=True) for number in pair]
    split = reshaped(ops, arriving(request), pairs)
    axes = [2 * axis for axis, count in enumerate(repeats) if count != 1]
    if axes:
        split = ops.op("ReduceSum", split, ints(ops, axes), keepdims=0)
    return placed(reshaped(ops, split, shape), request)


def _trilu(request: GradientRequest) -> Gradients:
    upper = int(request.attribute("upper", 1))
    more = [value for value in (operand(request, 1),) if value is not None]
    return placed(request.ops.op("Trilu", arriving(request), *more, upper=upper), request)


def _reverse_sequence(request: GradientRequest) -> Gradients:
    attributes = {name: a.value for name, a in request.node.attributes.items()}
    lengths = given(request, 1)
    turned = request.ops.op("ReverseSequence", arriving(request), lengths, **attributes)
    return placed(turned, request)


def _compress_forward(request: GradientRequest) -> list[ir.Value]:
    """What a constant condition keeps, by index."""
    ops, x = request.ops, given(request, 0)
    kept = np.flatnonzero(known_numbers(request, 1) or [])
    axis = request.attribute("axis", None)
    if axis is None:
        total = int(np.prod(request.shape(x), dtype=np.int64))
        return [ops.op("Gather", reshaped(ops, x, (total,)), ops.constant(kept), axis=0)]
    return [ops.op("Gather", x, ops.constant(kept), axis=int(axis))]


def _tensor_scatter(request: GradientRequest) -> Gradients:
    """What was overwritten gets nothing; what was put there gets what stands there.

    Rows `[.., sequence, ..]` of a cache are written from an index for each sample on, which wraps
    around where the mode is circular.
    """
    ops, cache, update = request.ops, given(request, 0), given(request, 1)
    shape, extents = request.shape(cache), request.shape(update)
    axis = int(request.attribute("axis", -2)) % len(shape)
    starts = operand(request, 2)
    if axis == 0:
        raise NotDifferentiable("it writes along the batch")
    along = [1] * len(shape)
    along[axis] = extents[axis]
    places = ops.constant(np.arange(extents[axis], dtype=np.int64).reshape(along))
    if starts is not None:
        first = reshaped(ops, starts, (shape[0], *([1] * (len(shape) - 1))))
        places = ops.op("Add", places, first)
    if text(request, "mode", "linear") == "circular":
        places = ops.op("Mod", places, ops.constant(np.array(shape[axis], np.int64)))
    places = ops.op("Expand", places, ints(ops, extents))
    found: list[ir.Value | None] = [None] * len(request.node.inputs)
    gradient = arriving(request)
    if request.wanted[0]:
        nothing = filled(ops, extents, update)
        found[0] = ops.op("ScatterElements", gradient, places, nothing, axis=axis)
    if request.wanted[1]:
        found[1] = ops.op("GatherElements", gradient, places, axis=axis)
    return found


RULES: dict[str, GradientRule] = {
    "DepthToSpace": composed(_blocks_forward),
    "SpaceToDepth": composed(_blocks_forward),
    "Tile": _tile,
    "Trilu": _trilu,
    "ReverseSequence": _reverse_sequence,
    "Compress": composed(_compress_forward),
    "TensorScatter": _tensor_scatter,
}
