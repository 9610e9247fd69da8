"""Gradients of convolutions, pooling and padding.

Convolutions after Dumoulin and Visin 2016, *A guide to convolution arithmetic*, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.contracts.gradients import (
    GradientOps,
    GradientRequest,
    GradientRule,
    NotDifferentiable,
)
from mcm_passes.differentiation.composition import Windows, composed, numbers, text, windows_of
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    cut_or_padded,
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


def _max_pool(request: GradientRequest) -> Gradients:
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


def _max_unpool(request: GradientRequest) -> Gradients:
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


def _pooling_windows(request: GradientRequest) -> Windows:
    kernel = numbers(request, "kernel_shape", ())
    size = request.shape(given(request, 0))[2:]
    return windows_of(request, kernel, size, request.shape(request.node.outputs[0])[2:])


def _spread(request: GradientRequest, held: ir.Value, windows: Windows) -> ir.Value:
    """Adds what each window holds to all its places: a transposed convolution with ones."""
    ops, x = request.ops, given(request, 0)
    batch, channels, *size = request.shape(x)
    ones = ops.constant(np.ones((1, 1, *windows.kernel), numpy_type(x)))
    single = reshaped(ops, held, (batch * channels, 1, *windows.count))
    spread = ops.op("ConvTranspose", single, ones, **windows.spreading())
    return reshaped(ops, spread, (batch, channels, *size))


def _average_pool(request: GradientRequest) -> Gradients:
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


def _lp_pool(request: GradientRequest) -> Gradients:
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


def _global(op_type: str) -> GradientRule:
    """A reduction over the spatial dimensions."""

    def forward(request: GradientRequest) -> list[ir.Value]:
        x = given(request, 0)
        axes = ints(request.ops, [*range(2, len(request.shape(x)))])
        return [request.ops.op(op_type, x, axes, keepdims=1)]

    return composed(forward)


def _global_lp(request: GradientRequest) -> Gradients:
    p = int(request.attribute("p", 2))
    if p not in (1, 2):
        raise NotDifferentiable(f"p={p} has no gradient rule, only 1 and 2 have")
    return _global(f"ReduceL{p}")(request)


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


def _conv(request: GradientRequest) -> Gradients:
    """Data by the transposed convolution, weights by one over the batch, bias by a sum."""
    x, w, gradient = (given(request, 0), given(request, 1), arriving(request))
    windows = windows_of(
        request,
        request.shape(w)[2:],
        request.shape(x)[2:],
        request.shape(request.node.outputs[0])[2:],
    )
    group = int(request.attribute("group", 1))
    to_x = to_w = None
    if request.wanted[0]:
        to_x = request.ops.op("ConvTranspose", gradient, w, group=group, **windows.spreading())
    if request.wanted[1]:
        to_w = _weight_gradient(request, x, gradient, windows, group)
    return [to_x, to_w, _bias_gradient(request)][: len(request.node.inputs)]


def _conv_transpose(request: GradientRequest) -> Gradients:
    """The convolution that it is the transpose of, with operand and gradient in turn."""
    ops = request.ops
    x, w, gradient = (given(request, 0), given(request, 1), arriving(request))
    windows = _transposed_windows(request, x, w)
    group = int(request.attribute("group", 1))
    to_x = to_w = None
    if request.wanted[0]:
        to_x = ops.op(
            "Conv", gradient, w, group=group, strides=list(windows.strides),
            dilations=list(windows.dilations), pads=[*windows.before, *windows.behind],
        )  # fmt: skip
        to_x = _first(ops, to_x, windows.count)
    if request.wanted[1]:
        to_w = _weight_gradient(request, gradient, x, windows, group)
    return [to_x, to_w, _bias_gradient(request)][: len(request.node.inputs)]


def _transposed_windows(request: GradientRequest, x: ir.Value, w: ir.Value) -> Windows:
    """Those of the convolution that takes the result back to the operand.

    Padding behind is what the result is short of; it is negative where `output_padding` or
    `output_shape` made space behind the last window, which the gradient has to be cut by.
    """
    size = request.shape(request.node.outputs[0])[2:]
    windows = windows_of(request, request.shape(w)[2:], size, request.shape(x)[2:])
    before = windows.before
    if request.attribute("output_shape", None) is not None:
        upper = text(request, "auto_pad", "NOTSET") == "SAME_UPPER"
        short = [c - s for c, s in zip(windows.covered, size, strict=True)]
        extra = numbers(request, "output_padding", (0,) * len(size))
        total = [max(0, a + b) for a, b in zip(short, extra, strict=True)]
        before = tuple(t // 2 if upper else t - t // 2 for t in total)
    behind = tuple(
        max(0, covered - s - b) for covered, s, b in zip(windows.covered, size, before, strict=True)
    )
    return replace(windows, before=before, behind=behind)


def _weight_gradient(
    request: GradientRequest, x: ir.Value, gradient: ir.Value, windows: Windows, group: int
) -> ir.Value:
    """`Σ over batch and windows of gradient · operand`, `[out, in / group, kernel]`.

    A convolution whose channels are the batch: filters are the gradients, strides and dilations
    change places, and each group convolves its own block of `group · N` channels (our derivation).

    Args:
        request: of the op.
        x: what windows slide over, `[N, in, size]`.
        gradient: what arrives at each window, `[N, out, count]`.
        windows: where they lie.
        group: number of groups.
    """
    ops = request.ops
    batch, channels, *size = dims(x)
    out = dims(gradient)[1]
    spatial = [*range(3, 3 + len(size))]
    blocks = reshaped(ops, x, (batch, group, channels // group, *size))
    blocks = ops.op("Transpose", blocks, perm=[2, 1, 0, *spatial])
    blocks = reshaped(ops, blocks, (channels // group, group * batch, *size))
    swap = [1, 0, *(place - 1 for place in spatial)]
    filters = ops.op("Transpose", gradient, perm=swap)
    spare = windows.spreading()["pads"][len(size) :]
    found = ops.op(
        "Conv", blocks, filters, group=group, strides=list(windows.dilations),
        dilations=list(windows.strides), pads=[*windows.before, *spare],
    )  # fmt: skip
    assert dims(found)[1] == out
    return ops.op("Transpose", _first(ops, found, windows.kernel), perm=swap)


def _bias_gradient(request: GradientRequest) -> ir.Value | None:
    if operand(request, 2) is None or not request.wanted[2]:
        return None
    rank = len(request.shape(given(request, 0)))
    axes = [axis for axis in range(rank) if axis != 1]
    return request.ops.op("ReduceSum", arriving(request), ints(request.ops, axes), keepdims=0)


def _first(ops: GradientOps, value: ir.Value, extents: tuple[int, ...]) -> ir.Value:
    """The first places of each spatial dimension."""
    more = [e - have for have, e in zip(dims(value)[2:], extents, strict=True)]
    return cut_or_padded(ops, value, [*([0] * (4 + len(more))), *more])


RULES: dict[str, GradientRule] = {
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("ReduceMean"),
    "GlobalMaxPool": _global("ReduceMax"),
    "GlobalLpPool": _global_lp,
    "Pad": _pad,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}
