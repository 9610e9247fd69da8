"""Gradients of normalisations (Ioffe and Szegedy 2015, section 3, for the closed form).

What is normalised is `n = (x - mean) inverse` with the statistics of some axes. With the gradient g
of n and means M over these axes, x gets `inverse (g - M g - n M(g n))`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, GradientRule
from mcm_passes.differentiation.composition import composed
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    given,
    ints,
    operand,
    reshaped,
)


def _statistics(
    ops: GradientOps, x: ir.Value, axes: Sequence[int], epsilon: float, centred: bool = True
) -> tuple[ir.Value, ir.Value]:
    """Normalised value, and the inverse of its standard deviation."""
    along = ints(ops, axes)
    if centred:
        x = ops.op("Sub", x, ops.op("ReduceMean", x, along, keepdims=1))
    variance = ops.op("ReduceMean", ops.op("Mul", x, x), along, keepdims=1)
    deviation = ops.op("Sqrt", ops.op("Add", variance, ops.like(x, epsilon)))
    inverse = ops.op("Reciprocal", deviation)
    return ops.op("Mul", x, inverse), inverse


def _back(
    ops: GradientOps,
    gradient: ir.Value,
    normal: ir.Value,
    inverse: ir.Value,
    axes: Sequence[int],
    centred: bool = True,
) -> ir.Value:
    """The gradient of what was normalised from that of the result."""
    along = ints(ops, axes)
    slope = ops.op("ReduceMean", ops.op("Mul", gradient, normal), along, keepdims=1)
    rest = ops.op("Sub", gradient, ops.op("Mul", normal, slope))
    if centred:
        rest = ops.op("Sub", rest, ops.op("ReduceMean", gradient, along, keepdims=1))
    return ops.op("Mul", rest, inverse)


def _scaled_and_shifted(
    request: GradientRequest, normal: ir.Value, inverse: ir.Value, axes: Sequence[int]
) -> Gradients:
    """Gradients of x, scale and bias where the latter have the shape of x or are broadcast."""
    ops, gradient = request.ops, arriving(request)
    scale, bias = given(request, 1), operand(request, 2)
    centred = request.node.op_type != "RMSNormalization"
    to_x = to_scale = to_bias = None
    if request.wanted[0]:
        to_x = _back(ops, ops.op("Mul", gradient, scale), normal, inverse, axes, centred)
    if request.wanted[1]:
        to_scale = ops.reduced_to(ops.op("Mul", gradient, normal), scale)
    if bias is not None and request.wanted[2]:
        to_bias = ops.reduced_to(gradient, bias)
    return [to_x, to_scale, to_bias][: len(request.node.inputs)]


def _last_axes(request: GradientRequest) -> list[int]:
    rank = len(request.shape(given(request, 0)))
    return [*range(int(request.attribute("axis", -1)) % rank, rank)]


def _layer(request: GradientRequest) -> Gradients:
    """Over the last dimensions; composed where the loss reads the statistics as well."""
    if any(gradient is not None for gradient in request.gradients[1:]):
        return composed(_layer_forward)(request)
    centred = request.node.op_type == "LayerNormalization"
    axes, epsilon = _last_axes(request), float(request.attribute("epsilon", 1e-5))
    normal, inverse = _statistics(request.ops, given(request, 0), axes, epsilon, centred)
    return _scaled_and_shifted(request, normal, inverse, axes)


def _layer_forward(request: GradientRequest) -> list[ir.Value]:
    ops, x, bias = request.ops, given(request, 0), operand(request, 2)
    axes, epsilon = _last_axes(request), float(request.attribute("epsilon", 1e-5))
    normal, inverse = _statistics(ops, x, axes, epsilon)
    y = ops.op("Mul", normal, given(request, 1))
    y = y if bias is None else ops.op("Add", y, bias)
    made = [y, ops.op("ReduceMean", x, ints(ops, axes), keepdims=1), inverse]
    # Statistics are of the type of `stash_type`, whatever that of the operand.
    return [
        value if value.dtype == due.dtype or due.dtype is None
        else ops.op("Cast", value, to=int(due.dtype))
        for value, due in zip(made, request.node.outputs, strict=False)
    ]  # fmt: skip


def _instance(request: GradientRequest) -> Gradients:
    """Over the spatial dimensions of each channel of each sample."""
    return _by_channel(request, request.shape(given(request, 0))[1])


def _group(request: GradientRequest) -> Gradients:
    """Over groups of channels; before opset 21 there is a scale for each group."""
    return _by_channel(request, int(request.attribute("num_groups", 1)))


def _by_channel(request: GradientRequest, groups: int) -> Gradients:
    ops, x, gradient = request.ops, given(request, 0), arriving(request)
    scale = given(request, 1)
    shape = request.shape(x)
    batch, channels, *size = shape
    factors = request.shape(scale)[0]
    rows = (batch, groups, channels // groups * math.prod(size))
    epsilon = float(request.attribute("epsilon", 1e-5))
    normal, inverse = _statistics(ops, reshaped(ops, x, rows), [2], epsilon)
    found: list[ir.Value | None] = [None, None, None]
    by_factor = (batch, factors, math.prod(shape) // (batch * factors))
    arrived = reshaped(ops, gradient, by_factor)
    if request.wanted[0]:
        scaled = ops.op("Mul", arrived, reshaped(ops, scale, (factors, 1)))
        to_rows = _back(ops, reshaped(ops, scaled, rows), normal, inverse, [2])
        found[0] = reshaped(ops, to_rows, shape)
    if request.wanted[1]:
        product = ops.op("Mul", arrived, reshaped(ops, normal, by_factor))
        found[1] = ops.op("ReduceSum", product, ints(ops, [0, 2]), keepdims=0)
    if request.wanted[2]:
        found[2] = ops.op("ReduceSum", arrived, ints(ops, [0, 2]), keepdims=0)
    return found


def _batch(request: GradientRequest) -> Gradients:
    """With the statistics of the batch in training, with given ones otherwise."""
    if not int(request.attribute("training_mode", 0)):
        return _batch_inference(request)
    if any(gradient is not None for gradient in request.gradients[1:]):
        return composed(_batch_forward)(request)
    return _batch_training(request)


def _batch_training(request: GradientRequest) -> Gradients:
    """`a g - b x + c` with factors by channel, so that no normalised copy of x is held.

    With `a = scale inverse`, `b = a inverse² Σ g (x - mean) / count` and
    `c = b mean - a Σ g / count` this is the closed form. It is written so that whatever is as
    large as x waits for g: a runtime that starts what it can would compute the rest in the forward
    pass.
    """
    ops, x, gradient = request.ops, given(request, 0), arriving(request)
    axes, along = _all_but_channels(request)
    sizes = ints(ops, axes)
    count = ops.like(x, math.prod(request.shape(x)[axis] for axis in axes))
    mean = ops.op("ReduceMean", x, sizes, keepdims=1)
    squares = ops.op("ReduceSumSquare", ops.op("Sub", x, mean), sizes, keepdims=1)
    epsilon = ops.like(x, float(request.attribute("epsilon", 1e-5)))
    variance = ops.op("Add", ops.op("Div", squares, count), epsilon)
    inverse = ops.op("Reciprocal", ops.op("Sqrt", variance))
    total = ops.op("ReduceSum", gradient, sizes, keepdims=1)
    moment = ops.op("ReduceSum", ops.op("Mul", gradient, x), sizes, keepdims=1)
    moment = ops.op("Sub", moment, ops.op("Mul", mean, total))
    slope = ops.op("Mul", moment, inverse)
    found: list[ir.Value | None] = [None] * 5
    if request.wanted[0]:
        a = ops.op("Mul", reshaped(ops, given(request, 1), along), inverse)
        share = ops.op("Div", a, count)
        b = ops.op("Mul", share, ops.op("Mul", slope, inverse))
        c = ops.op("Sub", ops.op("Mul", b, mean), ops.op("Mul", share, total))
        rest = ops.op("Sub", ops.op("Mul", gradient, a), ops.op("Mul", x, b))
        found[0] = ops.op("Add", rest, c)
    if request.wanted[1]:
        found[1] = reshaped(ops, slope, request.shape(given(request, 1)))
    if request.wanted[2]:
        found[2] = reshaped(ops, total, request.shape(given(request, 2)))
    return found


def _all_but_channels(request: GradientRequest) -> tuple[list[int], tuple[int, ...]]:
    """Axes of the statistics, and the shape in which channels are broadcast."""
    shape = request.shape(given(request, 0))
    axes = [axis for axis in range(len(shape)) if axis != 1]
    return axes, tuple(size if axis == 1 else 1 for axis, size in enumerate(shape))


def _batch_inference(request: GradientRequest) -> Gradients:
    ops, x, gradient = request.ops, given(request, 0), arriving(request)
    scale, mean, variance = (given(request, index) for index in (1, 3, 4))
    axes, along = _all_but_channels(request)
    epsilon = ops.like(variance, float(request.attribute("epsilon", 1e-5)))
    inverse = ops.op("Reciprocal", ops.op("Sqrt", ops.op("Add", variance, epsilon)))
    slope = ops.op("Mul", scale, inverse)
    found: list[ir.Value | None] = [None] * 5
    if request.wanted[0]:
        found[0] = ops.op("Mul", gradient, reshaped(ops, slope, along))
    if not any(request.wanted[1:]):
        return found
    total = ops.op("ReduceSum", gradient, ints(ops, axes), keepdims=0)
    found[2] = total if request.wanted[2] else None
    if request.wanted[3]:
        found[3] = ops.op("Neg", ops.op("Mul", total, slope))
    if request.wanted[1] or request.wanted[4]:
        centred = ops.op("Sub", x, reshaped(ops, mean, along))
        product = ops.op("Mul", gradient, centred)
        product = ops.op("ReduceSum", product, ints(ops, axes), keepdims=0)
        to_scale = ops.op("Mul", product, inverse)
        found[1] = to_scale if request.wanted[1] else None
        if request.wanted[4]:
            # The inverse deviation falls by half its cube with the variance.
            steep = ops.op("Mul", ops.op("Mul", slope, inverse), ops.like(slope, -0.5))
            found[4] = ops.op("Mul", to_scale, steep)
    return found


def _batch_forward(request: GradientRequest) -> list[ir.Value]:
    """With statistics that run along, `running · momentum + statistic · (1 - momentum)`."""
    ops, x = request.ops, given(request, 0)
    axes, along = _all_but_channels(request)
    normal, _ = _statistics(ops, x, axes, float(request.attribute("epsilon", 1e-5)))
    scale, bias = (reshaped(ops, given(request, index), along) for index in (1, 2))
    made = [ops.op("Add", ops.op("Mul", normal, scale), bias)]
    mean = ops.op("ReduceMean", x, ints(ops, axes), keepdims=1)
    centred = ops.op("Sub", x, mean)
    variance = ops.op("ReduceMean", ops.op("Mul", centred, centred), ints(ops, axes), keepdims=0)
    momentum = float(request.attribute("momentum", 0.9))
    for index, statistic in ((3, mean), (4, variance)):
        running = given(request, index)
        old = ops.op("Mul", running, ops.like(running, momentum))
        new = reshaped(ops, statistic, request.shape(running))
        new = ops.op("Mul", new, ops.like(new, 1.0 - momentum))
        made.append(ops.op("Add", old, new))
    return made


def _lrn_forward(request: GradientRequest) -> list[ir.Value]:
    """`x / (bias + alpha / size · Σ over near channels of x²)^beta` by a pool over channels."""
    ops, x = request.ops, given(request, 0)
    batch, channels, *size = request.shape(x)
    width = int(request.attribute("size", 1))
    flat = reshaped(ops, ops.op("Mul", x, x), (batch, 1, channels, math.prod(size)))
    near = ops.op(
        "AveragePool", flat, kernel_shape=[width, 1], count_include_pad=1,
        pads=[(width - 1) // 2, 0, width // 2, 0],
    )  # fmt: skip
    near = reshaped(ops, near, request.shape(x))
    alpha, bias = (
        ops.like(x, float(request.attribute(name, default)))
        for name, default in (("alpha", 1e-4), ("bias", 1.0))
    )
    base = ops.op("Add", bias, ops.op("Mul", alpha, near))
    power = ops.op("Pow", base, ops.like(x, -float(request.attribute("beta", 0.75))))
    return [ops.op("Mul", x, power)]


def _lp_forward(request: GradientRequest) -> list[ir.Value]:
    """`x / ‖x‖` along an axis; where the norm is zero, 0 as the op has it."""
    ops, x = request.ops, given(request, 0)
    axes = ints(ops, [int(request.attribute("axis", -1))])
    norm = ops.op(f"ReduceL{int(request.attribute('p', 2))}", x, axes, keepdims=1)
    empty = ops.op("Equal", norm, ops.like(x, 0.0))
    return [ops.op("Div", x, ops.op("Where", empty, ops.like(x, 1.0), norm))]


RULES: dict[str, GradientRule] = {
    "BatchNormalization": _batch,
    "LayerNormalization": _layer,
    "RMSNormalization": _layer,
    "InstanceNormalization": _instance,
    "GroupNormalization": _group,
    "LRN": composed(_lrn_forward),
    "LpNormalization": composed(_lp_forward),
}
