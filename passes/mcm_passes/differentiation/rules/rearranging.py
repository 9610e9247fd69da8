"""Gradients of ops that rearrange, pick or order elements, or change shapes alone."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts import gradients
from mcm_passes.differentiation.composition import composed, text
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    cut_or_padded,
    dims,
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
    return placed(cut_or_padded(ops, gradient, [*before, *behind]), request)


def _with_gaps(
    ops: gradients.GradientOps, gradient: ir.Value, taken: range, size: int, axis: int
) -> ir.Value:
    """Puts the elements along one axis where they were taken, with a zero everywhere else."""
    source = np.full(size, len(taken), np.int64)
    source[list(taken)] = np.arange(len(taken))
    rank = len(dims(gradient))
    behind = [int(place == axis) for place in range(rank)]
    longer = cut_or_padded(ops, gradient, [*([0] * rank), *behind])
    return ops.op("Gather", longer, ops.constant(source), axis=axis)


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
        pads = [0] * (2 * len(shape))
        pads[axis], pads[axis + len(shape)] = place, shape[axis] - 1 - place
        return [cut_or_padded(ops, one, pads), None]
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
    axis = int(request.attribute("axis", 0))
    return [_taken_back(request, given(request, 1), axis), None]


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
    axis = int(request.attribute("axis", -1))
    return placed(_taken_back(request, request.node.outputs[1], axis), request)


def _taken_back(request: gradients.GradientRequest, places: ir.Value, axis: int) -> ir.Value:
    """The arriving gradient, added to zeros where it was taken from."""
    ops, x = request.ops, given(request, 0)
    nothing = filled(ops, request.shape(x), x)
    gradient = arriving(request)
    return ops.op("ScatterElements", nothing, places, gradient, axis=axis, reduction="add")


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
