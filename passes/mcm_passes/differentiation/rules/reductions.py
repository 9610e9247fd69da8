"""Gradients of reductions, of softmax among them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, GradientRule
from mcm_passes.differentiation.rules import operands


@dataclass(frozen=True)
class _Reduction:
    """One reduction, its result and gradient with all dimensions kept.

    Attributes:
        ops: emits.
        x: the operand.
        y: the result.
        gradient: of the result.
        axes: that are reduced.
        count: elements behind each element of the result.
        shape: of the operand.
        kept: shape of the result with all dimensions.
    """

    ops: GradientOps
    x: ir.Value
    y: ir.Value
    gradient: ir.Value
    axes: tuple[int, ...]
    count: int
    shape: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, request: GradientRequest) -> _Reduction:
        """The reduction of a request; over no axes its other steps are still taken."""
        x, y = operands.given(request, 0), request.node.outputs[0]
        shape = request.shape(x)
        axes = operands.known_numbers(request, 1)
        if not axes:
            none = request.attribute("noop_with_empty_axes", 0)
            axes = [] if none else list(range(len(shape)))
        reduced = tuple(sorted({axis % len(shape) for axis in axes})) if shape else ()
        kept = tuple(1 if axis in reduced else size for axis, size in enumerate(shape))
        ops = request.ops
        return cls(
            ops,
            x,
            operands.reshaped(ops, y, kept),
            operands.reshaped(ops, operands.arriving(request), kept),
            reduced,
            math.prod(shape[axis] for axis in reduced),
            shape,
            kept,
        )

    def spread(self, value: ir.Value) -> ir.Value:
        """A value of the kept shape, repeated over the reduced dimensions."""
        if self.kept == self.shape:
            return value
        return self.ops.op("Expand", value, operands.ints(self.ops, self.shape))

    def total(self, value: ir.Value) -> ir.Value:
        """A value of the operand's shape summed over the reduced dimensions, which are kept."""
        if not self.axes:
            return value
        return self.ops.op("ReduceSum", value, operands.ints(self.ops, self.axes), keepdims=1)


def _sum(r: _Reduction) -> ir.Value:
    return r.spread(r.gradient)


def _mean(r: _Reduction) -> ir.Value:
    return r.spread(r.ops.op("Div", r.gradient, r.ops.like(r.gradient, float(r.count))))


def _extreme(r: _Reduction) -> ir.Value:
    """Equal shares to all elements that have the extreme value, as jax has it."""
    hits = r.ops.op("CastLike", r.ops.op("Equal", r.x, r.y), r.x)
    return r.ops.op("Mul", hits, r.ops.op("Div", r.gradient, r.total(hits)))


def _product(r: _Reduction) -> ir.Value:
    """The product of all others: with one zero it is that zero's alone, with two it is nobody's."""
    ops = r.ops
    none, one = ops.like(r.x, 0.0), ops.like(r.x, 1.0)
    is_zero = ops.op("Equal", r.x, none)
    rest = ops.op("Where", is_zero, one, r.x)
    zeros = r.total(ops.op("CastLike", is_zero, r.x))
    product = rest
    if r.axes:
        product = ops.op("ReduceProd", rest, operands.ints(ops, r.axes), keepdims=1)
    alone = ops.op("Where", ops.op("Equal", zeros, one), product, none)
    others = ops.op("Where", ops.op("Equal", zeros, none), product, none)
    slope = ops.op("Where", is_zero, alone, ops.op("Div", others, rest))
    return ops.op("Mul", r.gradient, slope)


def _l1(r: _Reduction) -> ir.Value:
    return r.ops.op("Mul", r.gradient, r.ops.op("Sign", r.x))


def _l2(r: _Reduction) -> ir.Value:
    return r.ops.op("Mul", r.x, r.ops.op("Div", r.gradient, r.y))


def _square_sum(r: _Reduction) -> ir.Value:
    return r.ops.op("Mul", r.x, r.ops.op("Add", r.gradient, r.gradient))


def _log_sum(r: _Reduction) -> ir.Value:
    return r.spread(r.ops.op("Div", r.gradient, r.ops.op("Exp", r.y)))


def _log_sum_exp(r: _Reduction) -> ir.Value:
    return r.ops.op("Mul", r.gradient, r.ops.op("Exp", r.ops.op("Sub", r.x, r.y)))


_SLOPES = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "ReduceProd": _product,
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _square_sum,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


_ITSELF = {
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp",
}  # fmt: skip
"""What a reduction of one element leaves as it is; the others take squares, logarithms or sizes."""


def _reduction(request: GradientRequest) -> operands.Gradients:
    if not request.wanted[0]:
        return operands.placed(None, request)
    found = _Reduction.of(request)
    if not found.axes and request.node.op_type in _ITSELF:
        return operands.placed(operands.arriving(request), request)
    return operands.placed(_SLOPES[request.node.op_type](found), request)


def _softmax(request: GradientRequest) -> operands.Gradients:
    """`y (g - Σ g y)`."""
    ops, gradient, y = request.ops, operands.arriving(request), request.node.outputs[0]
    axes = operands.ints(ops, [int(request.attribute("axis", -1))])
    total = ops.op("ReduceSum", ops.op("Mul", gradient, y), axes, keepdims=1)
    return [ops.op("Mul", y, ops.op("Sub", gradient, total))]


def _log_softmax(request: GradientRequest) -> operands.Gradients:
    """`g - e^y Σ g`."""
    ops, gradient, y = request.ops, operands.arriving(request), request.node.outputs[0]
    axes = operands.ints(ops, [int(request.attribute("axis", -1))])
    total = ops.op("ReduceSum", gradient, axes, keepdims=1)
    return [ops.op("Sub", gradient, ops.op("Mul", ops.op("Exp", y), total))]


RULES: dict[str, GradientRule] = {
    **dict.fromkeys(_SLOPES, _reduction),
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "Hardmax": operands.zero,
}
