"""Gradients of elementwise ops, dequantisation among them: summed where values were broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule, NotDifferentiable
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    Term,
    arriving,
    given,
    ints,
    numpy_type,
    operand,
    operand_terms,
    placed,
    reshaped,
    zero,
)


def parametrised(local: Callable[..., Term], **defaults: float) -> GradientRule:
    """The rule of an op with one operand and one result of the same shape.

    Args:
        local: from the operand x, the result y and the gradient of y to that of x; attributes of
            the op come behind.
        defaults: those attributes, with what they are where they are left out.
    """

    def rule(request: GradientRequest) -> Gradients:
        gradient = request.gradients[0]
        if gradient is None:
            return placed(None, request)
        values = (operand(request, 0), request.node.outputs[0], gradient)
        terms = [Term(request.ops, value) for value in values if value is not None]
        given = {name: request.attribute(name, number) for name, number in defaults.items()}
        return placed(local(*terms, **given).value, request)

    return rule


def unary(local: Callable[[Term, Term, Term], Term]) -> GradientRule:
    """The rule of such an op without attributes."""
    return parametrised(local)


def _times(slope: Callable[[Term, Term], Term]) -> GradientRule:
    """Of a slope as a function of x and y."""
    return unary(lambda x, y, g: g * slope(x, y))


def _over(slope: Callable[[Term, Term], Term]) -> GradientRule:
    """Of the inverse of a slope."""
    return unary(lambda x, y, g: g / slope(x, y))


def _reduced(request: GradientRequest, index: int, made: Callable[[], Term]) -> ir.Value | None:
    """Gradient of an operand, if it is wanted, summed where the operand was broadcast."""
    value = operand(request, index)
    if value is None or not request.wanted[index]:
        return None
    return request.ops.reduced_to(made().value, value)


def _shared(request: GradientRequest, share: Term) -> Gradients:
    """The same for all operands."""
    return [_reduced(request, index, lambda: share) for index in range(len(request.node.inputs))]


def _add(request: GradientRequest) -> Gradients:
    return _shared(request, Term(request.ops, arriving(request)))


def _mean(request: GradientRequest) -> Gradients:
    gradient = Term(request.ops, arriving(request))
    return _shared(request, gradient / float(len(request.node.inputs)))


def _sub(request: GradientRequest) -> Gradients:
    up, down = _add(request)
    return [up, None if down is None else request.ops.op("Neg", down)]


def _mul(request: GradientRequest) -> Gradients:
    g, a, b = operand_terms(request)
    return [_reduced(request, 0, lambda: g * b), _reduced(request, 1, lambda: g * a)]


def _div(request: GradientRequest) -> Gradients:
    g, _, b = operand_terms(request)
    share = g / b
    down = _reduced(request, 1, lambda: -share.op("Mul", request.node.outputs[0]))
    return [_reduced(request, 0, lambda: share), down]


def _pow(request: GradientRequest) -> Gradients:
    """`b a^(b-1)` and `a^b log a`; the latter is 0 where a is 0, as jax has it."""
    g, a, b = operand_terms(request)
    same = a.value.dtype == b.value.dtype

    def base() -> Term:
        power = b if same else b.op("CastLike", a)
        known = ir.convenience.get_const_tensor(b.value)
        if known is not None and known.size == 1 and float(known.numpy().reshape(-1)[0]) == 2.0:
            slope = power * a
        else:
            # The exponent is less by one in the type of the base.
            slope = power * a.op("Pow", power - a.number(1.0))
        return g * slope

    def exponent() -> Term:
        positive = a > 0.0
        log = positive.select(a, 1.0).op("Log")
        found = g * Term(request.ops, request.node.outputs[0]).op("Mul", log)
        return found if same else found.op("CastLike", b)

    return [_reduced(request, 0, base), _reduced(request, 1, exponent)]


def _extreme(request: GradientRequest) -> Gradients:
    """Equal shares to all operands that have the extreme value."""
    g, *inputs = operand_terms(request)
    ops, result = request.ops, request.node.outputs[0]
    if len(inputs) == 1:
        return [g.value]
    hits = [value.op("Equal", result).op("CastLike", result) for value in inputs]
    hits = [
        hit
        if hit.value.shape == result.shape
        else hit.op("Mul", ops.constant(np.ones(request.shape(result), numpy_type(result))))
        for hit in hits
    ]
    share = g / hits[0].op("Sum", *hits[1:])
    return [_reduced(request, index, lambda hit=hit: share * hit) for index, hit in enumerate(hits)]


def _mod(request: GradientRequest) -> Gradients:
    """`a - b q` with a quotient q that is constant almost everywhere."""
    g, a, b = operand_terms(request)
    rest = Term(request.ops, request.node.outputs[0])
    down = _reduced(request, 1, lambda: g * ((rest - a) / b).op("Round"))
    return [_reduced(request, 0, lambda: g), down]


def _where(request: GradientRequest) -> Gradients:
    g, condition, _, _ = operand_terms(request)
    nothing = g.number(0.0)
    return [
        None,
        _reduced(request, 1, lambda: condition.select(g, nothing)),
        _reduced(request, 2, lambda: condition.select(nothing, g)),
    ]


def _prelu(request: GradientRequest) -> Gradients:
    g, x, slope = operand_terms(request)
    negative = x < 0.0
    to_x = negative.select(g * slope, g).value if request.wanted[0] else None
    return [to_x, _reduced(request, 1, lambda: negative.select(g * x, 0.0))]


def _clip(request: GradientRequest) -> Gradients:
    """Passes where the operand is strictly within; bounds get what is beyond them."""
    g, x, y = (
        Term(request.ops, value)
        for value in (arriving(request), given(request, 0), request.node.outputs[0])
    )
    found = [x.op("Equal", y).select(g, 0.0).value if request.wanted[0] else None]
    for place in range(1, len(request.node.inputs)):
        bound = operand(request, place)

        def beyond(bound: ir.Value | None = bound) -> Term:
            assert bound is not None
            moved = x.op("Equal", y).op("Not")
            return (moved & y.op("Equal", bound)).select(g, 0.0)

        found.append(_reduced(request, place, beyond))
    return found


def _cast(request: GradientRequest) -> Gradients:
    gradient, x = arriving(request), given(request, 0)
    same = x.dtype == gradient.dtype
    return placed(gradient if same else request.ops.op("CastLike", gradient, x), request)


def _dropout(request: GradientRequest) -> Gradients:
    """Nothing for what was dropped; what passed was scaled by 1 / (1 - ratio)."""
    training, gradient = operand(request, 2), request.gradients[0]
    if gradient is None or training is None:
        return placed(gradient, request)
    if len(request.node.outputs) < 2:
        raise NotDifferentiable("it drops at random, and its second output, the mask, is missing")
    ratio, g = operand(request, 1), Term(request.ops, gradient)
    kept = g.number(0.5)
    if ratio is not None:
        share = Term(request.ops, ratio)
        share = share if ratio.dtype == gradient.dtype else share.op("CastLike", g)
        kept = g.number(1.0) - share
    scale = Term(request.ops, training).select(kept, 1.0)
    dropped = Term(request.ops, request.node.outputs[1])
    return placed(dropped.select(g / scale, 0.0).value, request)


def _leaky(x: Term, _: Term, g: Term, alpha: float) -> Term:
    less = g * alpha
    return (x < 0.0).select(less, g)


def _elu(x: Term, y: Term, g: Term, alpha: float) -> Term:
    """Below zero y is `alpha (e^x - 1)`, whose slope is `y + alpha`."""
    slope = y + alpha
    return (x < 0.0).select(g * slope, g)


def _selu(x: Term, y: Term, g: Term, alpha: float, gamma: float) -> Term:
    below = g * (y + alpha * gamma)
    above = g * gamma
    return (x < 0.0).select(below, above)


def _hard_sigmoid(_: Term, y: Term, g: Term, alpha: float) -> Term:
    inside = (y > 0.0) & (y < 1.0)
    return inside.select(g * alpha, 0.0)


def _softsign(x: Term, _: Term, g: Term) -> Term:
    size = x.op("Abs") + 1.0
    return g / (size * size)


def _bell(x: Term, _: Term) -> Term:
    return (-(x * x)).op("Exp") * (2.0 / math.sqrt(math.pi))


def _thresholded(x: Term, _: Term, g: Term, alpha: float) -> Term:
    return (x > alpha).select(g, 0.0)


def _shrink(x: Term, _: Term, g: Term, lambd: float) -> Term:
    return (x.op("Abs") > lambd).select(g, 0.0)


def _dequantized(request: GradientRequest) -> Gradients:
    """`Σ g (x - zero)` over the elements that a scale is for: one, an axis, or blocks of one."""
    if not request.wanted[1]:
        return placed(None, request)
    ops, x, scale, gradient = (request.ops, given(request, 0), given(request, 1), arriving(request))
    shape, scales = request.shape(x), request.shape(scale)
    rank = len(shape)
    spread = list(scales)
    if len(scales) == 1 and rank > 1:
        axis = int(request.attribute("axis", 1)) % rank
        spread = [
            size if scales[0] != 1 and place == axis else 1 for place, size in enumerate(shape)
        ]
    value = ops.op("Cast", x, to=_type(gradient))
    zero = operand(request, 2)
    blocked = [s if s in (0, 1, size) else 0 for s, size in zip(spread, shape[:rank], strict=False)]
    block = int(request.attribute("block_size", 0))
    if zero is not None:
        wide = reshaped(ops, ops.op("Cast", zero, to=_type(gradient)), spread)
        if block and 0 in blocked:
            wide = _repeated(request, wide, blocked.index(0), block, shape)
        value = ops.op("Sub", value, wide)
    product = ops.op("Mul", gradient, value)
    if block and 0 in blocked:
        axis = blocked.index(0)
        cut = [*shape[:axis], spread[axis], block, *shape[axis + 1 :]]
        summed = ops.op("ReduceSum", reshaped(ops, product, cut), ints(ops, [axis + 1]), keepdims=0)
        return placed(reshaped(ops, summed, scales), request, 1)
    axes = [place for place in range(rank) if place >= len(spread) or spread[place] != shape[place]]
    if axes:
        product = ops.op("ReduceSum", product, ints(ops, axes), keepdims=1)
    return placed(reshaped(ops, product, scales), request, 1)


def _repeated(
    request: GradientRequest, value: ir.Value, axis: int, block: int, shape: tuple[int, ...]
) -> ir.Value:
    """Each place of an axis as often as a block is long."""
    ops = request.ops
    wide = ops.op("Unsqueeze", value, ints(ops, [axis + 1]))
    own = [int(size) for size in wide.shape.numpy()] if wide.shape is not None else []
    own[axis + 1] = block
    return reshaped(ops, ops.op("Expand", wide, ints(ops, own)), shape)


def _type(value: ir.Value) -> int:
    assert value.dtype is not None
    return int(value.dtype)


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
    "Identity": unary(lambda _x, _y, g: g),
    "Neg": unary(lambda _x, _y, g: -g),
    "Abs": _times(lambda x, _: x.op("Sign")),
    "Exp": _times(lambda _, y: y),
    "Log": _over(lambda x, _: x),
    "Sqrt": _over(lambda _, y: y + y),
    "Reciprocal": unary(lambda _, y, g: -(g * (y * y))),
    "Sin": _times(lambda x, _: x.op("Cos")),
    "Cos": unary(lambda x, _, g: -(g * x.op("Sin"))),
    "Tan": _times(lambda _, y: 1.0 + y * y),
    "Asin": _over(lambda x, _: (1.0 - x * x).op("Sqrt")),
    "Acos": unary(lambda x, _, g: -(g / (1.0 - x * x).op("Sqrt"))),
    "Atan": _over(lambda x, _: 1.0 + x * x),
    # onnxruntime has no double kernels of Sinh and Cosh, so that sinh is (e^x - e^-x) / 2 here.
    "Sinh": _times(lambda x, _: (x.op("Exp") + (-x).op("Exp")) * 0.5),
    "Cosh": _times(lambda x, _: (x.op("Exp") - (-x).op("Exp")) * 0.5),
    "Asinh": _over(lambda x, _: (1.0 + x * x).op("Sqrt")),
    "Acosh": _over(lambda x, _: (-(1.0 - x * x)).op("Sqrt")),
    "Atanh": _over(lambda x, _: 1.0 - x * x),
    "Tanh": _times(lambda _, y: 1.0 - y * y),
    "Sigmoid": _times(lambda _, y: y * (1.0 - y)),
    "Relu": unary(lambda _, y, g: (y > 0.0).select(g, 0.0)),
    "LeakyRelu": parametrised(_leaky, alpha=0.01),
    "Elu": parametrised(_elu, alpha=1.0),
    "Selu": parametrised(_selu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "HardSigmoid": parametrised(_hard_sigmoid, alpha=0.2),
    "Softplus": _times(lambda x, _: x.op("Sigmoid")),
    "Softsign": unary(_softsign),
    "Erf": _times(_bell),
    "ThresholdedRelu": parametrised(_thresholded, alpha=1.0),
    "Shrink": parametrised(_shrink, lambd=0.5),
    **dict.fromkeys(("Ceil", "Floor", "Round", "Sign"), zero),
    "DequantizeLinear": _dequantized,
}
