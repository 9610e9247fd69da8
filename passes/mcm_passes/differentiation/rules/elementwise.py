"""Gradients of elementwise ops: derivative times what arrives, summed where it was broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import onnx_ir as ir

from mcm_compiler.contracts.gradients import (
    GradientOps,
    GradientRequest,
    GradientRule,
    NotDifferentiable,
)

Gradients = Sequence[ir.Value | None]
_Local = Callable[[GradientRequest, ir.Value, ir.Value, ir.Value], ir.Value]
"""From the request, the operand x, the result y and the gradient of y to that of x."""


def unary(local: _Local) -> GradientRule:
    """The rule of an op with one operand and one result of the same shape."""

    def rule(request: GradientRequest) -> Gradients:
        (gradient, *_), (x, *rest) = request.gradients, request.node.inputs
        assert x is not None
        if gradient is None:
            return [None] * (1 + len(rest))
        return [local(request, x, request.node.outputs[0], gradient), *(None for _ in rest)]

    return rule


def zero(request: GradientRequest) -> Gradients:
    """The rule of what is constant almost everywhere."""
    return [None] * len(request.node.inputs)


def mask(ops: GradientOps, condition: ir.Value, gradient: ir.Value) -> ir.Value:
    """The gradient where a condition holds, and 0 elsewhere."""
    return ops.op("Where", condition, gradient, ops.like(gradient, 0.0))


def _add(request: GradientRequest) -> Gradients:
    ops, (gradient,) = request.ops, request.gradients
    assert gradient is not None
    return [
        ops.reduced_to(gradient, value) if wanted and value is not None else None
        for value, wanted in zip(request.node.inputs, request.wanted, strict=True)
    ]


def _sub(request: GradientRequest) -> Gradients:
    ops, (gradient,), (a, b) = request.ops, request.gradients, request.node.inputs
    assert gradient is not None
    assert a is not None
    assert b is not None
    return [
        ops.reduced_to(gradient, a) if request.wanted[0] else None,
        ops.op("Neg", ops.reduced_to(gradient, b)) if request.wanted[1] else None,
    ]


def _mul(request: GradientRequest) -> Gradients:
    ops, (gradient,), (a, b) = request.ops, request.gradients, request.node.inputs
    assert gradient is not None
    assert a is not None
    assert b is not None
    return [
        ops.reduced_to(ops.op("Mul", gradient, b), a) if request.wanted[0] else None,
        ops.reduced_to(ops.op("Mul", gradient, a), b) if request.wanted[1] else None,
    ]


def _div(request: GradientRequest) -> Gradients:
    ops, (gradient,), (a, b) = request.ops, request.gradients, request.node.inputs
    assert gradient is not None
    assert a is not None
    assert b is not None
    share = ops.op("Div", gradient, b)
    down: ir.Value | None = None
    if request.wanted[1]:
        down = ops.op("Neg", ops.op("Mul", share, request.node.outputs[0]))
        down = ops.reduced_to(down, b)
    return [ops.reduced_to(share, a) if request.wanted[0] else None, down]


def _pow(request: GradientRequest) -> Gradients:
    """`b a^(b-1)` and `a^b log a`; the latter is 0 where a is 0, as jax has it."""
    ops, (gradient,), (a, b) = request.ops, request.gradients, request.node.inputs
    assert gradient is not None
    assert a is not None
    assert b is not None
    base = exponent = None
    if request.wanted[0]:
        power = b if b.dtype == a.dtype else ops.op("CastLike", b, a)
        known = ir.convenience.get_const_tensor(b)
        if known is not None and known.size == 1 and float(known.numpy().reshape(-1)[0]) == 2.0:
            slope = ops.op("Mul", power, a)
        else:
            less = ops.op("Pow", a, ops.op("Sub", power, ops.like(a, 1.0)))
            slope = ops.op("Mul", power, less)
        base = ops.reduced_to(ops.op("Mul", gradient, slope), a)
    if request.wanted[1]:
        positive = ops.op("Greater", a, ops.like(a, 0.0))
        log = ops.op("Log", ops.op("Where", positive, a, ops.like(a, 1.0)))
        slope = ops.op("Mul", request.node.outputs[0], log)
        exponent = ops.op("Mul", gradient, slope)
        exponent = exponent if b.dtype == a.dtype else ops.op("CastLike", exponent, b)
        exponent = ops.reduced_to(exponent, b)
    return [base, exponent]


def _mean(request: GradientRequest) -> Gradients:
    ops, (gradient,) = request.ops, request.gradients
    assert gradient is not None
    share = ops.op("Div", gradient, ops.like(gradient, float(len(request.node.inputs))))
    return [
        ops.reduced_to(share, value) if wanted and value is not None else None
        for value, wanted in zip(request.node.inputs, request.wanted, strict=True)
    ]


def _extreme(request: GradientRequest) -> Gradients:
    """Equal shares to all operands that have the extreme value."""
    ops, (gradient,) = request.ops, request.gradients
    assert gradient is not None
    result = request.node.outputs[0]
    inputs = [value for value in request.node.inputs if value is not None]
    if len(inputs) == 1:
        return [gradient]
    hits = [ops.op("CastLike", ops.op("Equal", value, result), result) for value in inputs]
    hits = [
        hit if hit.shape == result.shape else ops.op("Mul", hit, _ones(request, result))
        for hit in hits
    ]
    share = ops.op("Div", gradient, ops.op("Sum", *hits))
    return [
        ops.reduced_to(ops.op("Mul", share, hit), value) if wanted else None
        for value, hit, wanted in zip(inputs, hits, request.wanted, strict=True)
    ]


def _ones(request: GradientRequest, value: ir.Value) -> ir.Value:
    import numpy as np

    assert value.dtype is not None
    return request.ops.constant(np.ones(request.shape(value), value.dtype.numpy()))


def _mod(request: GradientRequest) -> Gradients:
    """`a - b q` with a quotient q that is constant almost everywhere."""
    ops, (gradient,), (a, b) = request.ops, request.gradients, request.node.inputs
    assert gradient is not None
    assert a is not None
    assert b is not None
    down: ir.Value | None = None
    if request.wanted[1]:
        quotient = ops.op("Div", ops.op("Sub", request.node.outputs[0], a), b)
        down = ops.reduced_to(ops.op("Mul", gradient, ops.op("Round", quotient)), b)
    return [ops.reduced_to(gradient, a) if request.wanted[0] else None, down]


def _where(request: GradientRequest) -> Gradients:
    ops, (gradient,), (condition, a, b) = request.ops, request.gradients, request.node.inputs
    assert gradient is not None
    assert condition is not None
    assert a is not None
    assert b is not None
    nothing = ops.like(gradient, 0.0)
    return [
        None,
        ops.reduced_to(ops.op("Where", condition, gradient, nothing), a)
        if request.wanted[1]
        else None,
        ops.reduced_to(ops.op("Where", condition, nothing, gradient), b)
        if request.wanted[2]
        else None,
    ]


def _prelu(request: GradientRequest) -> Gradients:
    ops, (gradient,), (x, slope) = request.ops, request.gradients, request.node.inputs
    assert gradient is not None
    assert x is not None
    assert slope is not None
    negative = ops.op("Less", x, ops.like(x, 0.0))
    to_x = to_slope = None
    if request.wanted[0]:
        to_x = ops.op("Where", negative, ops.op("Mul", gradient, slope), gradient)
    if request.wanted[1]:
        to_slope = ops.reduced_to(mask(ops, negative, ops.op("Mul", gradient, x)), slope)
    return [to_x, to_slope]


def _clip(request: GradientRequest) -> Gradients:
    """Passes where the operand lies strictly within; bounds get what lies beyond them."""
    ops, (gradient,) = request.ops, request.gradients
    assert gradient is not None
    x, low, high = (*request.node.inputs, None, None)[:3]
    assert x is not None
    result = request.node.outputs[0]
    to_x = mask(ops, ops.op("Equal", x, result), gradient) if request.wanted[0] else None
    found: list[ir.Value | None] = [to_x]
    for place, bound in enumerate((low, high)[: len(request.node.inputs) - 1], start=1):
        if bound is None or not request.wanted[place]:
            found.append(None)
            continue
        moved = ops.op("Not", ops.op("Equal", x, result))
        beyond = ops.op("And", moved, ops.op("Equal", result, bound))
        found.append(ops.reduced_to(mask(ops, beyond, gradient), bound))
    return found


def _cast(request: GradientRequest) -> Gradients:
    ops, (gradient,) = request.ops, request.gradients
    assert gradient is not None
    x, *rest = request.node.inputs
    assert x is not None
    same = x.dtype == gradient.dtype
    return [gradient if same else ops.op("CastLike", gradient, x), *(None for _ in rest)]


def _dropout(request: GradientRequest) -> Gradients:
    """What was dropped gets nothing; what passed was scaled by 1 / (1 - ratio)."""
    ops, gradient = request.ops, request.gradients[0]
    inputs = request.node.inputs
    training = inputs[2] if len(inputs) > 2 else None
    found: list[ir.Value | None] = [None] * len(inputs)
    if gradient is None:
        return found
    if training is None:
        found[0] = gradient
        return found
    if len(request.node.outputs) < 2:
        raise NotDifferentiable("it drops at random, and its second output, the mask, is missing")
    ratio = inputs[1]
    kept = ops.like(gradient, 0.5)
    if ratio is not None:
        ratio = ratio if ratio.dtype == gradient.dtype else ops.op("CastLike", ratio, gradient)
        kept = ops.op("Sub", ops.like(gradient, 1.0), ratio)
    scale = ops.op("Where", training, kept, ops.like(gradient, 1.0))
    found[0] = mask(ops, request.node.outputs[1], ops.op("Div", gradient, scale))
    return found


def _times(slope: Callable[[GradientOps, ir.Value, ir.Value], ir.Value]) -> GradientRule:
    """Of a slope as a function of x and y."""
    return unary(lambda r, x, y, g: r.ops.op("Mul", g, slope(r.ops, x, y)))


def _over(slope: Callable[[GradientOps, ir.Value, ir.Value], ir.Value]) -> GradientRule:
    """Of the inverse of a slope."""
    return unary(lambda r, x, y, g: r.ops.op("Div", g, slope(r.ops, x, y)))


def _square_and(ops: GradientOps, op_type: str, x: ir.Value, one: float) -> ir.Value:
    """`x² + one`, or `one - x²`."""
    square = ops.op("Mul", x, x)
    return ops.op(op_type, ops.like(x, one), square)


def _tanh(request: GradientRequest, _: ir.Value, y: ir.Value, gradient: ir.Value) -> ir.Value:
    return request.ops.op("Mul", gradient, _square_and(request.ops, "Sub", y, 1.0))


def _sigmoid(request: GradientRequest, _: ir.Value, y: ir.Value, gradient: ir.Value) -> ir.Value:
    ops = request.ops
    return ops.op("Mul", gradient, ops.op("Mul", y, ops.op("Sub", ops.like(y, 1.0), y)))


def _relu(request: GradientRequest, _: ir.Value, y: ir.Value, gradient: ir.Value) -> ir.Value:
    return mask(request.ops, request.ops.op("Greater", y, request.ops.like(y, 0.0)), gradient)


def _leaky(request: GradientRequest, x: ir.Value, _: ir.Value, gradient: ir.Value) -> ir.Value:
    ops = request.ops
    less = ops.op("Mul", gradient, ops.like(gradient, request.attribute("alpha", 0.01)))
    return ops.op("Where", ops.op("Less", x, ops.like(x, 0.0)), less, gradient)


def _elu(request: GradientRequest, x: ir.Value, y: ir.Value, gradient: ir.Value) -> ir.Value:
    """Below zero y is `alpha (e^x - 1)`, whose slope is `y + alpha`."""
    ops = request.ops
    slope = ops.op("Add", y, ops.like(y, request.attribute("alpha", 1.0)))
    return ops.op(
        "Where", ops.op("Less", x, ops.like(x, 0.0)), ops.op("Mul", gradient, slope), gradient
    )


def _selu(request: GradientRequest, x: ir.Value, y: ir.Value, gradient: ir.Value) -> ir.Value:
    ops = request.ops
    alpha = request.attribute("alpha", 1.67326319217681884765625)
    gamma = request.attribute("gamma", 1.05070102214813232421875)
    below = ops.op("Mul", gradient, ops.op("Add", y, ops.like(y, alpha * gamma)))
    above = ops.op("Mul", gradient, ops.like(y, gamma))
    return ops.op("Where", ops.op("Less", x, ops.like(x, 0.0)), below, above)


def _hard_sigmoid(
    request: GradientRequest, _: ir.Value, y: ir.Value, gradient: ir.Value
) -> ir.Value:
    ops = request.ops
    inside = ops.op(
        "And", ops.op("Greater", y, ops.like(y, 0.0)), ops.op("Less", y, ops.like(y, 1.0))
    )
    steep = ops.op("Mul", gradient, ops.like(y, request.attribute("alpha", 0.2)))
    return mask(ops, inside, steep)


def _softsign(request: GradientRequest, x: ir.Value, _: ir.Value, gradient: ir.Value) -> ir.Value:
    ops = request.ops
    size = ops.op("Add", ops.op("Abs", x), ops.like(x, 1.0))
    return ops.op("Div", gradient, ops.op("Mul", size, size))


def _erf(request: GradientRequest, x: ir.Value, _: ir.Value, gradient: ir.Value) -> ir.Value:
    ops = request.ops
    bell = ops.op("Exp", ops.op("Neg", ops.op("Mul", x, x)))
    scaled = ops.op("Mul", bell, ops.like(x, 2.0 / math.sqrt(math.pi)))
    return ops.op("Mul", gradient, scaled)


def _thresholded(
    request: GradientRequest, x: ir.Value, _: ir.Value, gradient: ir.Value
) -> ir.Value:
    above = request.ops.op("Greater", x, request.ops.like(x, request.attribute("alpha", 1.0)))
    return mask(request.ops, above, gradient)


def _shrink(request: GradientRequest, x: ir.Value, _: ir.Value, gradient: ir.Value) -> ir.Value:
    ops = request.ops
    above = ops.op("Greater", ops.op("Abs", x), ops.like(x, request.attribute("lambd", 0.5)))
    return mask(ops, above, gradient)


RULES: dict[str, GradientRule] = {
    "Add": _add,
    "Sum": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Pow": _pow,
    "Mean": _mean,
    "Max": _extreme,
    "Min": _extreme,
    "Mod": _mod,
    "Where": _where,
    "PRelu": _prelu,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast,
    "Dropout": _dropout,
    "Identity": unary(lambda _r, _x, _y, g: g),
    "Neg": unary(lambda r, _x, _y, g: r.ops.op("Neg", g)),
    "Abs": _times(lambda ops, x, _: ops.op("Sign", x)),
    "Exp": _times(lambda _ops, _x, y: y),
    "Log": _over(lambda _ops, x, _: x),
    "Sqrt": _over(lambda ops, _, y: ops.op("Add", y, y)),
    "Reciprocal": unary(
        lambda r, _x, y, g: r.ops.op("Neg", r.ops.op("Mul", g, r.ops.op("Mul", y, y)))
    ),
    "Sin": _times(lambda ops, x, _: ops.op("Cos", x)),
    "Cos": unary(lambda r, x, _y, g: r.ops.op("Neg", r.ops.op("Mul", g, r.ops.op("Sin", x)))),
    "Tan": _times(lambda ops, _, y: _square_and(ops, "Add", y, 1.0)),
    "Asin": _over(lambda ops, x, _: ops.op("Sqrt", _square_and(ops, "Sub", x, 1.0))),
    "Acos": unary(
        lambda r, x, _y, g: r.ops.op(
            "Neg", r.ops.op("Div", g, r.ops.op("Sqrt", _square_and(r.ops, "Sub", x, 1.0)))
        )
    ),
    "Atan": _over(lambda ops, x, _: _square_and(ops, "Add", x, 1.0)),
    # onnxruntime has no double kernels of Sinh and Cosh, so that sinh is (e^x - e^-x) / 2 here.
    "Sinh": _times(
        lambda ops, x, _: ops.op(
            "Mul", ops.op("Add", ops.op("Exp", x), ops.op("Exp", ops.op("Neg", x))),
            ops.like(x, 0.5),
        )
    ),
    "Cosh": _times(
        lambda ops, x, _: ops.op(
            "Mul", ops.op("Sub", ops.op("Exp", x), ops.op("Exp", ops.op("Neg", x))),
            ops.like(x, 0.5),
        )
    ),
    "Asinh": _over(lambda ops, x, _: ops.op("Sqrt", _square_and(ops, "Add", x, 1.0))),
    "Acosh": _over(
        lambda ops, x, _: ops.op("Sqrt", ops.op("Neg", _square_and(ops, "Sub", x, 1.0)))
    ),
    "Atanh": _over(lambda ops, x, _: _square_and(ops, "Sub", x, 1.0)),
    "Tanh": unary(_tanh),
    "Sigmoid": unary(_sigmoid),
    "Relu": unary(_relu),
    "LeakyRelu": unary(_leaky),
    "Elu": unary(_elu),
    "Selu": unary(_selu),
    "HardSigmoid": unary(_hard_sigmoid),
    "Softplus": _times(lambda ops, x, _: ops.op("Sigmoid", x)),
    "Softsign": unary(_softsign),
    "Erf": unary(_erf),
    "ThresholdedRelu": unary(_thresholded),
    "Shrink": unary(_shrink),
    "Ceil": zero,
    "Floor": zero,
    "Round": zero,
    "Sign": zero,
}  # fmt: skip
