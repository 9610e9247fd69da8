"""Ops that put the elements along some dimensions together."""

from __future__ import annotations

from functools import partial

from mcm_compiler.contracts.sharding.rules import Dim, OpFacts, Reduction, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators import composing


@composing.known_shapes(inputs=1, outputs=1)
def reduce(
    facts: OpFacts, shape: composing.Shape, out: composing.Shape, reduction: Reduction | None
) -> ShardingRule:
    """`a k+ -> a`; without an operator for partial results (a norm), the axis is needed whole."""
    axes = composing.listed(facts, 1, "axes")
    if axes is None and composing.is_given(facts, 1):
        return composing.whole(facts)
    if axes:
        reduced = {a % len(shape) for a in axes}
    else:
        nothing = bool(facts.attributes.get("noop_with_empty_axes", 0))
        reduced = set() if nothing else set(range(len(shape)))
    keep = bool(facts.attributes.get("keepdims", 1))
    return _along(facts, shape, reduced, keep, reduction)


@composing.known_shapes(inputs=1)
def arg_extreme(facts: OpFacts, shape: composing.Shape) -> ShardingRule:
    """`a !k -> a`: an index says nothing without the value it was found with."""
    axis = int(facts.attributes.get("axis", 0)) % len(shape)
    return _along(facts, shape, {axis}, bool(facts.attributes.get("keepdims", 1)), None)


def _along(
    facts: OpFacts,
    shape: composing.Shape,
    reduced: set[int],
    keep: bool,
    reduction: Reduction | None,
) -> ShardingRule:
    build = composing.RuleBuilder()
    kind = composing.REPLICATE if reduction is None else composing.REDUCE
    dims = [
        build.dim(size, kind if axis in reduced else composing.PASS, reduction=reduction)
        for axis, size in enumerate(shape)
    ]
    result: list[Dim] = [
        () if axis in reduced else dim
        for axis, dim in enumerate(dims)
        if keep or axis not in reduced
    ]
    return build.rule([dims, *[None] * (len(facts.input_shapes) - 1)], [result])


@composing.known_shapes(inputs=1)
def global_pool(
    facts: OpFacts, shape: composing.Shape, reduction: Reduction | None
) -> ShardingRule:
    """`n c y+ x+ -> n c 1 1`."""
    return _along(facts, shape, set(range(2, len(shape))), True, reduction)


@composing.known_shapes(inputs=1)
def determinant(facts: OpFacts, shape: composing.Shape) -> ShardingRule:
    """`* !n !m -> *`."""
    return _along(facts, shape, {len(shape) - 2, len(shape) - 1}, False, None)


@composing.known_shapes(inputs=1)
def running(facts: OpFacts, shape: composing.Shape) -> ShardingRule:
    """`a !k, _ -> a !k`: every element depends on those before it."""
    if not facts.constants.get(1):
        return composing.whole(facts)
    return composing.same_shape(facts, shape, {facts.constants[1][0] % len(shape)})


RULES: dict[str, RuleMaker] = {
    "ReduceSum": partial(reduce, reduction="sum"),
    "ReduceL1": partial(reduce, reduction="sum"),
    "ReduceSumSquare": partial(reduce, reduction="sum"),
    "ReduceMean": partial(reduce, reduction="mean"),
    "ReduceMax": partial(reduce, reduction="max"),
    "ReduceMin": partial(reduce, reduction="min"),
    "ReduceProd": partial(reduce, reduction="prod"),
    "ReduceL2": partial(reduce, reduction=None),
    "ReduceLogSum": partial(reduce, reduction=None),
    "ReduceLogSumExp": partial(reduce, reduction=None),
    "ArgMax": arg_extreme,
    "ArgMin": arg_extreme,
    "GlobalAveragePool": partial(global_pool, reduction="mean"),
    "GlobalMaxPool": partial(global_pool, reduction="max"),
    "GlobalLpPool": partial(global_pool, reduction=None),
    "CumSum": running,
    "CumProd": running,
    "Det": determinant,
}
