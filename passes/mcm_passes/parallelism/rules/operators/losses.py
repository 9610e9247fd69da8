"""Losses over classes."""

from __future__ import annotations

from mcm_compiler.contracts.sharding import rules
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REDUCE,
    REPLICATE,
    OpRule,
    RuleFamily,
    Shape,
)

RULES = RuleFamily()


@RULES.of("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", inputs=1)
def loss(op: OpRule, scores: Shape) -> rules.ShardingRule:
    """`n+mean !c, n+mean, _ -> []`, with `reduction` none `n !c, n, _ -> n`.

    A mean that weighs classes, or leaves some out, is no mean of the parts' means: it is the
    quotient of two sums, and an op has one way to put its parts together. Sums that are weighed
    are divided. Log probabilities, where they are a second result, have the batch dimensions in
    any case.
    """
    how = op.attributes.get("reduction", "mean")
    how = how.decode() if isinstance(how, bytes) else str(how)
    weighted = len(op.inputs) > 2 or "ignore_index" in op.attributes
    kind: rules.FactorKind = REDUCE
    if how == "none":
        kind = PASS
    elif how == "mean" and weighted:
        kind = REPLICATE
    reduction: rules.Reduction = "mean" if how == "mean" else "sum"
    dims = [
        op.dim(size, REPLICATE if axis == 1 else kind, reduction=reduction)
        for axis, size in enumerate(scores)
    ]
    labels = [dim for axis, dim in enumerate(dims) if axis != 1]
    results: list[list[rules.Dim]] = [labels if how == "none" else []]
    if len(op.outputs) > 1:
        results.append(dims)
    return op.rule([dims, labels], results)
