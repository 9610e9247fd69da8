"""Gradients of pooling and padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts import gradients
from mcm_passes.differentiation.composition import Windows, composed, numbers, text, windows_of
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    dims,
    filled,
    given,
    ints,
    known_numbers,
    numpy_type,
    operand,
    placed,
    reshaped,
)


def _max_pool(request: gradients.GradientRequest) -> Gradients:
    """All that arrives goes to the element that was taken: the first one where several are equal.

    The places come from the op's second output, or from the same op once more.
    """
    ops, x, gradient = request.ops, given(request, 0), arriving(request)
    places = request.node.outputs[1] if len(request.node.outputs) > 1 else None
    if places is None or not places.name or int(request.attribute("storage_order", 0)):
        attributes = {
            name: attribute.value
            for name, attribute in request.node.attributes.items()
            if name != "storage_order"
        }
        _, places = ops.ops(2, "MaxPool", x, **attributes)
    shape = request.shape(x)
    nothing = filled(ops, (math.prod(shape),), x)
    flat, where = (reshaped(ops, v, (math.prod(dims(v)),)) for v in (gradient, places))
    total = ops.op("ScatterElements", nothing, where, flat, axis=0, reduction="add")
    return [reshaped(ops, total, shape)]


def _max_unpool(request: gradients.GradientRequest) -> Gradients:
    """Places count in the shape without `output_shape`, which only adds zeros behind."""
    ops, gradient, places = request.ops, arriving(request), given(request, 1)
    kernel = numbers(request, "kernel_shape", ())
    strides = numbers(request, "strides", (1,) * len(kernel))
    pads = numbers(request, "pads", (0,) * (2 * len(kernel)))
    behind = [
        (count - 1) * strides[i] + kernel[i] - pads[i] - pads[i + len(kernel)] - have
        for i, (count, have) in enumerate(
            zip(request.shape(places)[2:], dims(gradient)[2:], strict=True)
        )
    ]
    gradient = cut_or_padded(ops, gradient, [*([0] * (4 + len(kernel))), *behind])
    flat = reshaped(ops, gradient, (math.prod(dims(gradient)),))
    return placed(ops.op("Gather", flat, places, axis=0), request)


def _pooling_windows(request: gradients.GradientRequest) -> Windows:
    kernel = numbers(request, "kernel_shape", ())
    size = request.shape(given(request, 0))[2:]
    return windows_of(request, kernel, size, request.shape(request.node.outputs[0])[2:])


def _spread(request: gradients.GradientRequest, held: ir.Value, windows: Windows) -> ir.Value:
    """Adds what each window holds to all its places: a transposed convolution with ones."""
    ops, x = request.ops, given(request, 0)
    batch, channels, *size = request.shape(x)
    ones = ops.constant(np.ones((1, 1, *windows.kernel), numpy_type(x)))
    single = reshaped(ops, held, (batch * channels, 1, *windows.count))
    spread = ops.op("ConvTranspose", single, ones, **windows.spreading())
    return reshaped(ops, spread, (batch, channels, *size))


def _average_pool(request: gradients.GradientRequest) -> Gradients:
    windows = _pooling_windows(request)
    ops, gradient = request.ops, arriving(request)
    counts = _places(windows, bool(request.attribute("count_include_pad", 0)))
    counts = counts.astype(numpy_type(gradient))
    if (counts == counts.flat[0]).all():
        counts = counts.reshape(-1)[0]
    share = ops.op("Div", gradient, ops.constant(counts))
    return [_spread(request, share, windows)]


def _places(windows: Windows, with_padding: bool) -> npt.NDArray[np.int64]:
    """How many places each window averages over; none is behind the padding of the op."""
    by_axis: list[npt.NDArray[np.int64]] = []
    for axis, kernel in enumerate(windows.kernel):
        first = np.arange(windows.count[axis]) * windows.strides[axis] - windows.before[axis]
        places = first[:, None] + np.arange(kernel) * windows.dilations[axis]
        low = -windows.before[axis] if with_padding else 0
        high = windows.size[axis] + (windows.behind[axis] if with_padding else 0)
        by_axis.append(((places >= low) & (places < high)).sum(axis=1))
    return reduce(np.multiply.outer, by_axis)


def _lp_pool(request: gradients.GradientRequest) -> Gradients:
    """`sign(x) |x|^(p-1) Σ g y^(1-p)` over the windows of an element; 0 where a window is."""
    ops, x, y, gradient = request.ops, given(request, 0), request.node.outputs[0], arriving(request)
    p = int(request.attribute("p", 2))
    windows = _pooling_windows(request)
    if p == 1:
        return [ops.op("Mul", ops.op("Sign", x), _spread(request, gradient, windows))]
    lower = ops.op("Pow", y, ops.like(y, float(p - 1)))
    empty = ops.op("Equal", lower, ops.like(y, 0.0))
    share = ops.op("Div", gradient, ops.op("Where", empty, ops.like(y, 1.0), lower))
    share = ops.op("Where", empty, ops.like(y, 0.0), share)
    slope = x
    if p > 2:
        slope = ops.op("Mul", x, ops.op("Pow", ops.op("Abs", x), ops.like(x, float(p - 2))))
    return [ops.op("Mul", slope, _spread(request, share, windows))]


def _global(op_type: str) -> gradients.GradientRule:
    """A reduction over the spatial dimensions."""

    def forward(request: gradients.GradientRequest) -> list[ir.Value]:
        x = given(request, 0)
        axes = ints(request.ops, [*range(2, len(request.shape(x)))])
        return [request.ops.op(op_type, x, axes, keepdims=1)]

    return composed(forward)


def _global_lp(request: gradients.GradientRequest) -> Gradients:
    p = int(request.attribute("p", 2))
    if p not in (1, 2):
        raise gradients.NotDifferentiable(f"p={p} has no gradient rule, only 1 and 2 have")
    return _global(f"ReduceL{p}")(request)


_NUMPY_MODES = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def _pad(request: gradients.GradientRequest) -> Gradients:
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


def _pads(request: gradients.GradientRequest) -> list[int]:
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


def _repeated(request: gradients.GradientRequest, pads: Sequence[int], mode: str) -> ir.Value:
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


def cut_or_padded(ops: gradients.GradientOps, value: ir.Value, pads: Sequence[int]) -> ir.Value:
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


RULES: dict[str, gradients.GradientRule] = {
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("ReduceMean"),
    "GlobalMaxPool": _global("ReduceMax"),
    "GlobalLpPool": _global_lp,
    "Pad": _pad,
}
