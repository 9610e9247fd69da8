"""Gradients of the loss ops of ONNX."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientRequest, GradientRule
from mcm_passes.differentiation.composition import composed
from mcm_passes.differentiation.rules import operands
from mcm_passes.differentiation.rules.function_bodies import through_body


def _hits_and_shares(request: GradientRequest) -> tuple[ir.Value, ir.Value]:
    """Where the labels stand, `[N, C, d...]`, and what arrives at each label, `[N, 1, d...]`.

    Labels that are to be ignored have no hit and get nothing.
    """
    ops, scores, labels = request.ops, operands.given(request, 0), operands.given(request, 1)
    weights = operands.operand(request, 2)
    kind = operands.numpy_type(scores)
    factors: ir.Value | None = None
    ignored = request.attribute("ignore_index", None)
    if ignored is not None:
        label = ops.constant(np.array(int(ignored), operands.numpy_type(labels)))
        skipped = ops.op("Equal", labels, label)
        nothing = ops.constant(np.array(0, operands.numpy_type(labels)))
        labels = ops.op("Where", skipped, nothing, labels)
        factors = ops.op("Where", skipped, ops.like(scores, 0.0), ops.like(scores, 1.0))
    if weights is not None:
        own = ops.op("Gather", weights, labels, axis=0)
        factors = own if factors is None else ops.op("Mul", factors, own)
    classes = ops.constant(np.array(request.shape(scores)[1], np.int64))
    hits = ops.op("OneHot", labels, classes, ops.constant(np.array([0, 1], kind)), axis=1)
    share = operands.arriving(request)
    count = int(np.prod(request.shape(labels), dtype=np.int64))
    if request.attribute("reduction", "mean") in ("mean", b"mean"):
        total = ops.like(scores, float(count))
        if factors is not None:
            total = ops.op("ReduceSum", factors, keepdims=0)
        share = ops.op("Div", share, total)
    if factors is not None:
        share = ops.op("Mul", share, factors)
    rank = len(request.shape(labels))
    shared = share.shape is not None and len(share.shape) == rank
    return hits, ops.op("Unsqueeze", share, operands.ints(ops, [1])) if shared else share


def _softmax_cross_entropy(request: GradientRequest) -> operands.Gradients:
    """`(softmax - hit) share`; what arrives at the logarithms comes on top."""
    if len(request.wanted) > 2 and request.wanted[2]:
        return composed(through_body)(request)
    ops, scores = request.ops, operands.given(request, 0)
    found: ir.Value | None = None
    chances = ops.op("Softmax", scores, axis=1)
    if request.gradients[0] is not None:
        hits, share = _hits_and_shares(request)
        found = ops.op("Mul", ops.op("Sub", chances, hits), share)
    if len(request.gradients) > 1 and request.gradients[1] is not None:
        logs = request.gradients[1]
        total = ops.op("ReduceSum", logs, operands.ints(ops, [1]), keepdims=1)
        more = ops.op("Sub", logs, ops.op("Mul", chances, total))
        found = more if found is None else ops.op("Add", found, more)
    return operands.placed(found, request)


def _negative_log_likelihood(request: GradientRequest) -> operands.Gradients:
    if len(request.wanted) > 2 and request.wanted[2]:
        return composed(through_body)(request)
    hits, share = _hits_and_shares(request)
    return operands.placed(request.ops.op("Neg", request.ops.op("Mul", hits, share)), request)


RULES: dict[str, GradientRule] = {
    "SoftmaxCrossEntropyLoss": _softmax_cross_entropy,
    "NegativeLogLikelihoodLoss": _negative_log_likelihood,
}
