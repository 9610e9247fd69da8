"""Gradients of ops that rearrange elements, or change shapes alone."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts import gradients
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


def _blocks_forward(request: gradients.GradientRequest) -> list[ir.Value]:
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


def _tile(request: gradients.GradientRequest) -> Gradients:
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


def _trilu(request: gradients.GradientRequest) -> Gradients:
    upper = int(request.attribute("upper", 1))
    more = [value for value in (operand(request, 1),) if value is not None]
    return placed(request.ops.op("Trilu", arriving(request), *more, upper=upper), request)


def _reverse_sequence(request: gradients.GradientRequest) -> Gradients:
    attributes = {name: a.value for name, a in request.node.attributes.items()}
    lengths = given(request, 1)
    turned = request.ops.op("ReverseSequence", arriving(request), lengths, **attributes)
    return placed(turned, request)


def _compress_forward(request: gradients.GradientRequest) -> list[ir.Value]:
    """Indices that a constant condition keeps."""
    ops, x = request.ops, given(request, 0)
    kept = np.flatnonzero(known_numbers(request, 1) or [])
    axis = request.attribute("axis", None)
    if axis is None:
        total = int(np.prod(request.shape(x), dtype=np.int64))
        return [ops.op("Gather", reshaped(ops, x, (total,)), ops.constant(kept), axis=0)]
    return [ops.op("Gather", x, ops.constant(kept), axis=int(axis))]


def _tensor_scatter(request: gradients.GradientRequest) -> Gradients:
    """Gradient: 0 for overwritten values, the arriving one for those put there.

    Rows `[.., sequence, ..]` of a cache are written from an index for each sample on, which wraps
    around where the mode is circular.
    """
    ops, cache, update = request.ops, given(request, 0), given(request, 1)
    shape, extents = request.shape(cache), request.shape(update)
    axis = int(request.attribute("axis", -2)) % len(shape)
    starts = operand(request, 2)
    if axis == 0:
        raise gradients.NotDifferentiable("it writes along the batch")
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


def _back_in_shape(request: gradients.GradientRequest) -> Gradients:
    shape = request.shape(given(request, 0))
    return placed(reshaped(request.ops, arriving(request), shape), request)


def _transpose(request: gradients.GradientRequest) -> Gradients:
    rank = len(request.shape(given(request, 0)))
    perm = [int(axis) for axis in request.attribute("perm", range(rank)[::-1])]
    back = [perm.index(axis) for axis in range(rank)]
    return [request.ops.op("Transpose", arriving(request), perm=back)]


def _concat(request: gradients.GradientRequest) -> Gradients:
    ops, gradient = request.ops, arriving(request)
    axis = int(request.attribute("axis", 1))
    inputs = [given(request, index) for index in range(len(request.node.inputs))]
    if len(inputs) == 1:
        return [gradient]
    sizes = [request.shape(value)[axis] for value in inputs]
    parts = ops.ops(len(inputs), "Split", gradient, ints(ops, sizes), axis=axis)
    return [part if wanted else None for part, wanted in zip(parts, request.wanted, strict=True)]


def _split(request: gradients.GradientRequest) -> Gradients:
    ops, axis = request.ops, int(request.attribute("axis", 0))
    x = given(request, 0)
    parts = [
        filled(ops, request.shape(value), x) if gradient is None else gradient
        for value, gradient in zip(request.node.outputs, request.gradients, strict=True)
    ]
    joined = parts[0] if len(parts) == 1 else ops.op("Concat", *parts, axis=axis)
    return placed(joined, request)


def _expand(request: gradients.GradientRequest) -> Gradients:
    return placed(request.ops.reduced_to(arriving(request), given(request, 0)), request)


def _slice(request: gradients.GradientRequest) -> Gradients:
    """Zeros around what was taken; with gaps between where the steps are wider than 1."""
    ops, x, gradient = request.ops, given(request, 0), arriving(request)
    shape = request.shape(x)
    starts = known_numbers(request, 1) or []
    ends = known_numbers(request, 2) or []
    axes = known_numbers(request, 3)
    steps = known_numbers(request, 4) or [1] * len(starts)
    before, behind = [0] * len(shape), [0] * len(shape)
    for axis, start, end, step in zip(
        range(len(starts)) if axes is None else axes, starts, ends, steps, strict=True
    ):
        place = axis % len(shape)
        # Python counts as ONNX does, but for an end before the first element of a step back.
        taken = range(*slice(start, end, step).indices(shape[place]))
        if step == 1:
            before[place] = taken.start if taken else 0
            behind[place] = shape[place] - before[place] - len(taken)
        else:
            gradient = _with_gaps(ops, gradient, taken, shape[place], place)
    return placed(padded(ops, gradient, before, behind), request)


def padded(
    ops: gradients.GradientOps, value: ir.Value, before: list[int], behind: list[int]
) -> ir.Value:
    """Zeros around a value, this many in front of and behind each dimension."""
    if not any(before) and not any(behind):
        return value
    return ops.op("Pad", value, ints(ops, [*before, *behind]))


def _with_gaps(
    ops: gradients.GradientOps, gradient: ir.Value, taken: range, size: int, axis: int
) -> ir.Value:
    """Puts the elements along one axis where they were taken, with a zero everywhere else."""
    source = np.full(size, len(taken), np.int64)
    source[list(taken)] = np.arange(len(taken))
    assert gradient.shape is not None
    rank = len(gradient.shape)
    behind = [int(place == axis) for place in range(rank)]
    return ops.op(
        "Gather", padded(ops, gradient, [0] * rank, behind), ops.constant(source), axis=axis
    )


RULES: dict[str, gradients.GradientRule] = {
    "DepthToSpace": composed(_blocks_forward),
    "SpaceToDepth": composed(_blocks_forward),
    "Tile": _tile,
    "Trilu": _trilu,
    "ReverseSequence": _reverse_sequence,
    "Compress": composed(_compress_forward),
    "TensorScatter": _tensor_scatter,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _back_in_shape),
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Expand": _expand,
    "Slice": _slice,
}
