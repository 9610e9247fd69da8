"""Ops that put the elements along some dimensions together."""

from __future__ import annotations

from functools import partial

from mcm_compiler.contracts.sharding.rules import Dim, OpFacts, Reduction, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REDUCE,
    REPLICATE,
    RuleBuilder,
    is_given,
    listed,
    whole,
)


def reduce(facts: OpFacts, reduction: Reduction | None) -> ShardingRule:
    """`a k+ -> a`; without an operator for partial results (a norm), the axis is needed whole."""
    shape, out = facts.input_shapes[0], facts.output_shapes[0]
    axes = listed(facts, 1, "axes")
    if shape is None or out is None or (axes is None and is_given(facts, 1)):
        return whole(facts)
    if axes:
        reduced = {a % len(shape) for a in axes}
    else:
        nothing = bool(facts.attributes.get("noop_with_empty_axes", 0))
        reduced = set() if nothing else set(range(len(shape)))
    keep = bool(facts.attributes.get("keepdims", 1))
    return _along(facts, reduced, keep, reduction)


def arg_extreme(facts: OpFacts) -> ShardingRule:
    """`a !k -> a`: an index says nothing without the value it was found with."""
    shape = facts.input_shapes[0]
    if shape is None:
        return whole(facts)
    axis = int(facts.attributes.get("axis", 0)) % len(shape)
    return _along(facts, {axis}, bool(facts.attributes.get("keepdims", 1)), None)


def _along(
    facts: OpFacts, reduced: set[int], keep: bool, reduction: Reduction | None
) -> ShardingRule:
    shape = facts.input_shapes[0]
    assert shape is not None
    build = RuleBuilder()
    kind = REPLICATE if reduction is None else REDUCE
    dims = [
        build.dim(size, kind if axis in reduced else PASS, reduction=reduction)
        for axis, size in enumerate(shape)
    ]
    result: list[Dim] = [
        () if axis in reduced else dim
        for axis, dim in enumerate(dims)
        if keep or axis not in reduced
    ]
    return build.rule([dims, *[None] * (len(facts.input_shapes) - 1)], [result])


def global_pool(facts: OpFacts, reduction: Reduction | None) -> ShardingRule:
    """`n c y+ x+ -> n c 1 1`."""
    shape = facts.input_shapes[0]
    if shape is None:
        return whole(facts)
    return _along(facts, set(range(2, len(shape))), True, reduction)


def determinant(facts: OpFacts) -> ShardingRule:
    """`* !n !m -> *`."""
    shape = facts.input_shapes[0]
    if shape is None:
        return whole(facts)
    return _along(facts, {len(shape) - 2, len(shape) - 1}, False, None)


def running(facts: OpFacts) -> ShardingRule:
    """`a !k, _ -> a !k`: every element depends on those before it."""
    shape = facts.input_shapes[0]
    if shape is None or not facts.constants.get(1):
        return whole(facts)
    axis = facts.constants[1][0] % len(shape)
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i == axis else PASS) for i, s in enumerate(shape)]
    return build.rule([dims, None], [dims])


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
