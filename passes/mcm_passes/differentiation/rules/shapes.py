"""Gradients of ops that move elements to other places of other shapes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, GradientRule
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    filled,
    given,
    ints,
    known_numbers,
    placed,
    reshaped,
)


def _back_in_shape(request: GradientRequest) -> Gradients:
    shape = request.shape(given(request, 0))
    return placed(reshaped(request.ops, arriving(request), shape), request)


def _transpose(request: GradientRequest) -> Gradients:
    rank = len(request.shape(given(request, 0)))
    perm = [int(axis) for axis in request.attribute("perm", range(rank)[::-1])]
    back = [perm.index(axis) for axis in range(rank)]
    return [request.ops.op("Transpose", arriving(request), perm=back)]


def _concat(request: GradientRequest) -> Gradients:
    ops, gradient = request.ops, arriving(request)
    axis = int(request.attribute("axis", 1))
    inputs = [given(request, index) for index in range(len(request.node.inputs))]
    if len(inputs) == 1:
        return [gradient]
    sizes = [request.shape(value)[axis] for value in inputs]
    parts = ops.ops(len(inputs), "Split", gradient, ints(ops, sizes), axis=axis)
    return [part if wanted else None for part, wanted in zip(parts, request.wanted, strict=True)]


def _split(request: GradientRequest) -> Gradients:
    ops, axis = request.ops, int(request.attribute("axis", 0))
    x = given(request, 0)
    parts = [
        filled(ops, request.shape(value), x) if gradient is None else gradient
        for value, gradient in zip(request.node.outputs, request.gradients, strict=True)
    ]
    joined = parts[0] if len(parts) == 1 else ops.op("Concat", *parts, axis=axis)
    return placed(joined, request)


def _expand(request: GradientRequest) -> Gradients:
    return placed(request.ops.reduced_to(arriving(request), given(request, 0)), request)


def _slice(request: GradientRequest) -> Gradients:
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


def padded(ops: GradientOps, value: ir.Value, before: list[int], behind: list[int]) -> ir.Value:
    """Zeros around a value, so many in front of and behind each dimension."""
    if not any(before) and not any(behind):
        return value
    return ops.op("Pad", value, ints(ops, [*before, *behind]))


def _with_gaps(
    ops: GradientOps, gradient: ir.Value, taken: range, size: int, axis: int
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


RULES: dict[str, GradientRule] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _back_in_shape),
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Expand": _expand,
    "Slice": _slice,
}
