"""Gradients of matrix products."""

from __future__ import annotations

import math

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, GradientRule
from mcm_passes.differentiation.rules.operands import (
    Gradients,
    arriving,
    given,
    operand,
    reshaped,
)


def _matmul(request: GradientRequest) -> Gradients:
    """`g Bᵀ` and `Aᵀ g`; a vector counts as a row on the left and as a column on the right."""
    ops, gradient = request.ops, arriving(request)
    a, b = given(request, 0), given(request, 1)
    left, right = request.shape(a), request.shape(b)
    wide_left = left if len(left) > 1 else (1, *left)
    wide_right = right if len(right) > 1 else (*right, 1)
    batch = request.shape(request.node.outputs[0])
    batch = batch[: len(batch) - (len(left) > 1) - (len(right) > 1)]
    gradient = reshaped(ops, gradient, (*batch, wide_left[-2], wide_right[-1]))
    wide_a, wide_b = reshaped(ops, a, wide_left), reshaped(ops, b, wide_right)
    to_a = to_b = None
    if request.wanted[0]:
        to_a = reshaped(ops, _times_transposed(ops, gradient, wide_b, wide_a), left)
    if request.wanted[1]:
        to_b = reshaped(ops, _transposed_times(ops, wide_a, gradient, wide_b), right)
    return [to_a, to_b]


def _times_transposed(ops: GradientOps, gradient: ir.Value, b: ir.Value, a: ir.Value) -> ir.Value:
    """The gradient of `a` in `a b`."""
    if len(_dims(gradient)) == 2:
        return ops.op("Gemm", gradient, b, transB=1)
    return ops.reduced_to(ops.op("MatMul", gradient, _transposed(ops, b)), a)


def _transposed_times(ops: GradientOps, a: ir.Value, gradient: ir.Value, b: ir.Value) -> ir.Value:
    """The gradient of `b` in `a b`; where b is one matrix for the whole batch, in one product."""
    left, out = _dims(a), _dims(gradient)
    if len(_dims(b)) == 2 and left[:-1] == out[:-1]:
        rows = math.prod(left[:-1])
        flat = reshaped(ops, gradient, (rows, out[-1]))
        return ops.op("Gemm", reshaped(ops, a, (rows, left[-1])), flat, transA=1)
    return ops.reduced_to(ops.op("MatMul", _transposed(ops, a), gradient), b)


def _transposed(ops: GradientOps, value: ir.Value) -> ir.Value:
    rank = len(_dims(value))
    return ops.op("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def _dims(value: ir.Value) -> tuple[int, ...]:
    assert value.shape is not None
    return tuple(int(dim) for dim in value.shape.numpy())


def _gemm(request: GradientRequest) -> Gradients:
    ops, gradient = request.ops, arriving(request)
    a, b, c = given(request, 0), given(request, 1), operand(request, 2)
    alpha, beta = float(request.attribute("alpha", 1.0)), float(request.attribute("beta", 1.0))
    trans_a, trans_b = int(request.attribute("transA", 0)), int(request.attribute("transB", 0))
    to_a = to_b = to_c = None
    if request.wanted[0]:
        if trans_a:
            to_a = ops.op("Gemm", b, gradient, alpha=alpha, transA=trans_b, transB=1)
        else:
            to_a = ops.op("Gemm", gradient, b, alpha=alpha, transB=1 - trans_b)
    if request.wanted[1]:
        if trans_b:
            to_b = ops.op("Gemm", gradient, a, alpha=alpha, transA=1, transB=trans_a)
        else:
            to_b = ops.op("Gemm", a, gradient, alpha=alpha, transA=1 - trans_a)
    if c is not None and request.wanted[2]:
        to_c = ops.reduced_to(gradient, c)
        to_c = to_c if beta == 1.0 else ops.op("Mul", to_c, ops.like(to_c, beta))
    return [to_a, to_b, to_c][: len(request.node.inputs)]


RULES: dict[str, GradientRule] = {"MatMul": _matmul, "Gemm": _gemm}
