"""Losses over classes."""

from __future__ import annotations

from mcm_compiler.contracts.sharding import rules
from mcm_passes.parallelism.rules.operators import composing


@composing.known_shapes(inputs=1)
def loss(facts: rules.OpFacts, scores: composing.Shape) -> rules.ShardingRule:
    """`n+mean !c, n+mean, _ -> []`, with `reduction` none `n !c, n, _ -> n`.

    A mean that weighs classes, or leaves some out, is no mean of the parts' means: it is the
    quotient of two sums, and an op has one way to put its parts together. Sums that are weighed
    are divided. Log probabilities, where they are a second result, have the batch dimensions in
    any case.
    """
    how = facts.attributes.get("reduction", "mean")
    how = how.decode() if isinstance(how, bytes) else str(how)
    weighted = len(facts.input_shapes) > 2 or "ignore_index" in facts.attributes
    kind: rules.FactorKind = composing.REDUCE
    if how == "none":
        kind = composing.PASS
    elif how == "mean" and weighted:
        kind = composing.REPLICATE
    reduction: rules.Reduction = "mean" if how == "mean" else "sum"
    build = composing.RuleBuilder()
    dims = [
        build.dim(size, composing.REPLICATE if axis == 1 else kind, reduction=reduction)
        for axis, size in enumerate(scores)
    ]
    labels = [dim for axis, dim in enumerate(dims) if axis != 1]
    results: list[list[rules.Dim]] = [labels if how == "none" else []]
    if len(facts.output_shapes) > 1:
        results.append(dims)
    rest = [None] * (len(facts.input_shapes) - 2)
    return build.rule([dims, labels, *rest], results)


RULES: dict[str, rules.RuleMaker] = {
    "SoftmaxCrossEntropyLoss": loss,
    "NegativeLogLikelihoodLoss": loss,
}
