"""Gradients of ops that go in an order: running sums and products, largest elements."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule
from mcm_passes.differentiation.composition import composed
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    filled,
    given,
    ints,
    known_numbers,
    placed,
)


def _cumulative_sum(request: GradientRequest) -> Gradients:
    """The sum from the other end."""
    found = request.ops.op(
        "CumSum", arriving(request), given(request, 1),
        exclusive=int(request.attribute("exclusive", 0)),
        reverse=1 - int(request.attribute("reverse", 0)),
    )  # fmt: skip
    return placed(found, request)


def _cumulative_product(request: GradientRequest) -> list[ir.Value]:
    """One product for each place, so that elements which are zero have their gradient, too."""
    ops, x = request.ops, given(request, 0)
    shape = request.shape(x)
    (axis,) = (number % len(shape) for number in known_numbers(request, 1) or [0])
    parts = [
        ops.op("Slice", x, ints(ops, [place]), ints(ops, [place + 1]), ints(ops, [axis]))
        for place in range(shape[axis])
    ]
    backwards = bool(request.attribute("reverse", 0))
    exclusive = bool(request.attribute("exclusive", 0))
    products: list[ir.Value] = []
    running: ir.Value | None = None
    for part in reversed(parts) if backwards else parts:
        if exclusive:
            one = ops.op("Expand", ops.like(x, 1.0), ints(ops, [*_with(shape, axis)]))
            products.append(one if running is None else running)
        running = part if running is None else ops.op("Mul", running, part)
        if not exclusive:
            products.append(running)
    return [ops.op("Concat", *(products[::-1] if backwards else products), axis=axis)]


def _with(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(1 if place == axis else size for place, size in enumerate(shape))


def _top(request: GradientRequest) -> Gradients:
    """What was taken gets what arrives; the places are the op's second output."""
    ops, x = request.ops, given(request, 0)
    nothing = filled(ops, request.shape(x), x)
    axis = int(request.attribute("axis", -1))
    places = request.node.outputs[1]
    total = ops.op(
        "ScatterElements", nothing, places, arriving(request), axis=axis, reduction="add"
    )
    return placed(total, request)


RULES: dict[str, GradientRule] = {
    "CumSum": _cumulative_sum,
    "CumProd": composed(_cumulative_product),
    "TopK": _top,
}
