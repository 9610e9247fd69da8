"""Gradients of ops that pick or order elements by index."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts import gradients
from mcm_passes.differentiation.composition import composed
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
from mcm_passes.differentiation.rules.rearranging import padded


def _gather(request: gradients.GradientRequest) -> Gradients:
    ops, data, indices = request.ops, given(request, 0), given(request, 1)
    if not request.wanted[0]:
        return [None, None]
    shape = request.shape(data)
    axis = int(request.attribute("axis", 0)) % len(shape)
    gradient = arriving(request)
    known = None if indices.is_graph_input() else ir.convenience.get_const_tensor(indices)
    if known is not None and known.size == 1:
        place = int(known.numpy().reshape(-1)[0]) % shape[axis]
        one = reshaped(ops, gradient, (*shape[:axis], 1, *shape[axis + 1 :]))
        before = [place if d == axis else 0 for d in range(len(shape))]
        behind = [shape[axis] - 1 - place if d == axis else 0 for d in range(len(shape))]
        return [padded(ops, one, before, behind), None]
    return [_added_rows(ops, gradient, indices, request.shape(indices), shape, axis), None]


def _added_rows(
    ops: gradients.GradientOps,
    gradient: ir.Value,
    indices: ir.Value,
    extents: tuple[int, ...],
    shape: tuple[int, ...],
    axis: int,
) -> ir.Value:
    """Adds the rows of a gradient to zeros of `shape` at `indices` along an axis."""
    count = len(extents)
    others = [d for d in range(len(shape)) if d != axis]
    if axis:
        moved = [
            *range(axis, axis + count),
            *range(axis),
            *range(axis + count, count + len(others)),
        ]
        gradient = ops.op("Transpose", gradient, perm=moved)
    rows = math.prod(extents)
    width = [shape[d] for d in others]
    flat = reshaped(ops, gradient, (rows, *width))
    places = reshaped(ops, indices, (rows, 1))
    if places.dtype is not ir.DataType.INT64:
        places = ops.op("Cast", places, to=int(ir.DataType.INT64))
    nothing = filled(ops, (shape[axis], *width), gradient)
    total = ops.op("ScatterND", nothing, places, flat, reduction="add")
    if axis:
        total = ops.op(
            "Transpose", total, perm=[*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
        )
    return total


def _gather_elements(request: gradients.GradientRequest) -> Gradients:
    ops, data, indices = request.ops, given(request, 0), given(request, 1)
    axis = int(request.attribute("axis", 0))
    nothing = filled(ops, request.shape(data), data)
    total = ops.op(
        "ScatterElements", nothing, indices, arriving(request), axis=axis, reduction="add"
    )
    return [total, None]


def _gather_nd(request: gradients.GradientRequest) -> Gradients:
    ops, data, indices = request.ops, given(request, 0), given(request, 1)
    batch = int(request.attribute("batch_dims", 0))
    extents = request.shape(indices)
    if batch:
        # The places within the batch are what the indices leave out.
        grids = np.indices(extents[:-1], dtype=np.int64)[:batch]
        indices = ops.op("Concat", ops.constant(np.moveaxis(grids, 0, -1)), indices, axis=-1)
    nothing = filled(ops, request.shape(data), data)
    return [ops.op("ScatterND", nothing, indices, arriving(request), reduction="add"), None]


def _scatter(request: gradients.GradientRequest) -> Gradients:
    """Gradient: 0 for overwritten values, the arriving one for those put there."""
    ops, gradient = request.ops, arriving(request)
    indices, updates = given(request, 1), given(request, 2)
    op_type = request.node.op_type
    reduction = str(request.attribute("reduction", "none"))
    if reduction not in ("none", "add"):
        raise gradients.NotDifferentiable(f"reduction={reduction} has no gradient rule")
    along = {} if op_type == "ScatterND" else {"axis": int(request.attribute("axis", 0))}
    to_data = gradient
    if reduction == "none" and request.wanted[0]:
        nothing = filled(ops, request.shape(updates), updates)
        to_data = ops.op(op_type, gradient, indices, nothing, **along)
    taking = "GatherND" if op_type == "ScatterND" else "GatherElements"
    to_updates = ops.op(taking, gradient, indices, **along) if request.wanted[2] else None
    return [to_data if request.wanted[0] else None, None, to_updates]


def _one_hot(request: gradients.GradientRequest) -> Gradients:
    """The value of hot elements gets what arrives at those, that of cold ones the rest."""
    ops, gradient = request.ops, arriving(request)
    indices, values = given(request, 0), given(request, 2)
    axis = int(request.attribute("axis", -1))
    depth = ops.constant(np.array(request.shape(gradient)[axis], np.int64))
    marks = ops.constant(np.array([0, 1]).astype(gradient.dtype.numpy()))  # pyright: ignore[reportOptionalMemberAccess]
    hot = ops.op("OneHot", indices, depth, marks, axis=axis)
    on = ops.op("ReduceSum", ops.op("Mul", gradient, hot), keepdims=0)
    off = ops.op("Sub", ops.op("ReduceSum", gradient, keepdims=0), on)
    first = [reshaped(ops, value, (1,)) for value in (off, on)]
    both = ops.op("Concat", *first, axis=0)
    return placed(reshaped(ops, both, request.shape(values)), request, 2)


def _cumulative_sum(request: gradients.GradientRequest) -> Gradients:
    """The sum from the other end."""
    found = request.ops.op(
        "CumSum", arriving(request), given(request, 1),
        exclusive=int(request.attribute("exclusive", 0)),
        reverse=1 - int(request.attribute("reverse", 0)),
    )  # fmt: skip
    return placed(found, request)


def _cumulative_product(request: gradients.GradientRequest) -> list[ir.Value]:
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


def _top(request: gradients.GradientRequest) -> Gradients:
    """Gradient: the arriving one for values that were taken, by the op's second output."""
    ops, x = request.ops, given(request, 0)
    nothing = filled(ops, request.shape(x), x)
    axis = int(request.attribute("axis", -1))
    places = request.node.outputs[1]
    total = ops.op(
        "ScatterElements", nothing, places, arriving(request), axis=axis, reduction="add"
    )
    return placed(total, request)


RULES: dict[str, gradients.GradientRule] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "OneHot": _one_hot,
    "CumSum": _cumulative_sum,
    "CumProd": composed(_cumulative_product),
    "TopK": _top,
}
