"""Gradients of reductions, of softmax among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule
from mcm_passes.differentiation.rules import operands
from mcm_passes.differentiation.rules.operands import Term


@dataclass(frozen=True)
class _Reduction:
    """One reduction, its result and gradient with all dimensions kept.

    Attributes:
        x: the operand.
        y: the result.
        g: gradient of the result.
        axes: that are reduced.
        shape: of the operand.
        kept: shape of the result with all dimensions.
    """

    x: Term
    y: Term
    g: Term
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, request: GradientRequest) -> _Reduction:
        """The reduction of a request; over no axes its other steps are still taken."""
        ops, x = request.ops, operands.given(request, 0)
        shape = request.shape(x)
        axes = operands.known_numbers(request, 1)
        if not axes:
            none = request.attribute("noop_with_empty_axes", 0)
            axes = [] if none else list(range(len(shape)))
        reduced = tuple(sorted({axis % len(shape) for axis in axes})) if shape else ()
        kept = tuple(1 if axis in reduced else size for axis, size in enumerate(shape))
        y, g = (
            Term(ops, operands.reshaped(ops, value, kept))
            for value in (request.node.outputs[0], operands.arriving(request))
        )
        return cls(Term(ops, x), y, g, reduced, shape, kept)

    def spread(self, term: Term) -> Term:
        """A value of the kept shape, repeated over the reduced dimensions."""
        if self.kept == self.shape:
            return term
        return term.op("Expand", operands.ints(term.ops, self.shape))

    def total(self, op_type: str, term: Term) -> Term:
        """A value of the operand's shape, reduced by an op; the dimensions are kept."""
        if not self.axes:
            return term
        return term.op(op_type, operands.ints(term.ops, self.axes), keepdims=1)


def _mean(r: _Reduction) -> Term:
    return r.spread(r.g / float(math.prod(r.shape[axis] for axis in r.axes)))


def _extreme(r: _Reduction) -> Term:
    """Equal shares to all elements that have the extreme value, as jax has it."""
    hits = r.x.op("Equal", r.y).op("CastLike", r.x)
    return hits * (r.g / r.total("ReduceSum", hits))


def _product(r: _Reduction) -> Term:
    """The product of all others: with one zero it is that zero's alone, with two it is nobody's."""
    none, one = r.x.number(0.0), r.x.number(1.0)
    is_zero = r.x.op("Equal", none)
    rest = is_zero.select(one, r.x)
    zeros = r.total("ReduceSum", is_zero.op("CastLike", r.x))
    product = r.total("ReduceProd", rest)
    alone = zeros.op("Equal", one).select(product, none)
    others = zeros.op("Equal", none).select(product, none)
    return r.g * is_zero.select(alone, others / rest)


_SLOPES: dict[str, Callable[[_Reduction], Term]] = {
    "ReduceSum": lambda r: r.spread(r.g),
    "ReduceMean": _mean,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "ReduceProd": _product,
    "ReduceL1": lambda r: r.g * r.x.op("Sign"),
    "ReduceL2": lambda r: r.x * (r.g / r.y),
    "ReduceSumSquare": lambda r: r.x * (r.g + r.g),
    "ReduceLogSum": lambda r: r.spread(r.g / r.y.op("Exp")),
    "ReduceLogSumExp": lambda r: r.g * (r.x - r.y).op("Exp"),
}

_ITSELF = {
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp",
}  # fmt: skip
"""Reductions that leave one element as it is; others take squares, logarithms or sizes."""


def _reduction(request: GradientRequest) -> operands.Gradients:
    if not request.wanted[0]:
        return operands.placed(None, request)
    found = _Reduction.of(request)
    if not found.axes and request.node.op_type in _ITSELF:
        return operands.placed(operands.arriving(request), request)
    return operands.placed(_SLOPES[request.node.op_type](found).value, request)


def _softmax(request: GradientRequest) -> operands.Gradients:
    """`y (g - Σ g y)`, and of the logarithm `g - e^y Σ g`."""
    g, y = (Term(request.ops, v) for v in (operands.arriving(request), request.node.outputs[0]))
    axes = operands.ints(request.ops, [int(request.attribute("axis", -1))])
    if request.node.op_type == "LogSoftmax":
        total = g.op("ReduceSum", axes, keepdims=1)
        return [(g - y.op("Exp") * total).value]
    total = (g * y).op("ReduceSum", axes, keepdims=1)
    return [(y * (g - total)).value]


RULES: dict[str, GradientRule] = {
    **dict.fromkeys(_SLOPES, _reduction),
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Hardmax": operands.zero,
}
