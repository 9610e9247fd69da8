"""Gradients of padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, GradientRule
from mcm_passes.differentiation.composition import composed, text
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    given,
    ints,
    known_numbers,
    operand,
    reshaped,
)

_NUMPY_MODES = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def _pad(request: GradientRequest) -> Gradients:
    mode = text(request, "mode", "constant")
    pads = _pads(request)
    if mode != "constant":
        return composed(lambda asked: [_repeated(asked, pads, _NUMPY_MODES[mode])])(request)
    ops, gradient = request.ops, arriving(request)
    if not any(pads):
        return [gradient, *(None for _ in request.node.inputs[1:])]
    inner = cut_or_padded(ops, gradient, [-pad for pad in pads])
    found: list[ir.Value | None] = [inner, None, None, None]
    value = operand(request, 2)
    if value is not None and request.wanted[2]:
        rest = ops.op(
            "Sub", ops.op("ReduceSum", gradient, keepdims=0), ops.op("ReduceSum", inner, keepdims=0)
        )
        found[2] = reshaped(ops, rest, request.shape(value))
    return found[: len(request.node.inputs)]


def _pads(request: GradientRequest) -> list[int]:
    """Padding in front of and then behind each dimension; negative ones cut."""
    rank = len(request.shape(given(request, 0)))
    pads = known_numbers(request, 1) or []
    axes = known_numbers(request, 3)
    if axes is None:
        return pads
    found = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        found[axis % rank] = pads[place]
        found[axis % rank + rank] = pads[place + len(axes)]
    return found


def _repeated(request: GradientRequest, pads: Sequence[int], mode: str) -> ir.Value:
    """The padded operand as elements that are taken by index, dimension by dimension."""
    value = given(request, 0)
    shape = request.shape(value)
    for axis, size in enumerate(shape):
        before, behind = pads[axis], pads[axis + len(shape)]
        places = np.arange(size)
        places = np.pad(places, (max(0, before), max(0, behind)), mode=mode)  # pyright: ignore[reportArgumentType, reportCallIssue]
        places = places[max(0, -before) : len(places) - max(0, -behind)]
        if before or behind:
            value = request.ops.op("Gather", value, ints(request.ops, places.tolist()), axis=axis)
    return value


def cut_or_padded(ops: GradientOps, value: ir.Value, pads: Sequence[int]) -> ir.Value:
    """Zeros around a value, or without its outermost places where a pad is negative.

    Args:
        ops: emits.
        value: of static shape.
        pads: in front of and then behind each dimension.
    """
    assert value.shape is not None
    rank = len(value.shape)
    cut = [axis for axis in range(rank) if min(pads[axis], pads[axis + rank]) < 0]
    if cut:
        # Negative pads of `Pad` are a part of ONNX that not every runtime has.
        starts = [max(0, -pads[axis]) for axis in cut]
        sizes = [int(size) for size in value.shape.numpy()]
        ends = [sizes[axis] - max(0, -pads[axis + rank]) for axis in cut]
        value = ops.op("Slice", value, ints(ops, starts), ints(ops, ends), ints(ops, cut))
    more = [max(0, pad) for pad in pads]
    return ops.op("Pad", value, ints(ops, more)) if any(more) else value


RULES: dict[str, GradientRule] = {"Pad": _pad}
