"""Ops that put the elements along some dimensions together."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import Dim, Reduction, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REDUCE,
    REPLICATE,
    OpRule,
    RuleFamily,
    Shape,
)

RULES = RuleFamily()


@RULES.of("ReduceSum", "ReduceL1", "ReduceSumSquare", inputs=1, outputs=1, reduction="sum")
@RULES.of("ReduceMean", inputs=1, outputs=1, reduction="mean")
@RULES.of("ReduceMax", inputs=1, outputs=1, reduction="max")
@RULES.of("ReduceMin", inputs=1, outputs=1, reduction="min")
@RULES.of("ReduceProd", inputs=1, outputs=1, reduction="prod")
@RULES.of("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", inputs=1, outputs=1, reduction=None)
def reduce(op: OpRule, shape: Shape, out: Shape, reduction: Reduction | None) -> ShardingRule:
    """`a k+ -> a`; without an operator for partial results (a norm), the axis is needed whole."""
    axes = op.listed(1, "axes")
    if axes is None and op.is_given(1):
        return op.whole()
    if axes:
        reduced = {a % len(shape) for a in axes}
    else:
        nothing = bool(op.attributes.get("noop_with_empty_axes", 0))
        reduced = set() if nothing else set(range(len(shape)))
    keep = bool(op.attributes.get("keepdims", 1))
    return _along(op, shape, reduced, keep, reduction)


@RULES.of("ArgMax", "ArgMin", inputs=1)
def arg_extreme(op: OpRule, shape: Shape) -> ShardingRule:
    """`a !k -> a`: an index says nothing without the value it was found with."""
    axis = int(op.attributes.get("axis", 0)) % len(shape)
    return _along(op, shape, {axis}, bool(op.attributes.get("keepdims", 1)), None)


def _along(
    op: OpRule, shape: Shape, reduced: set[int], keep: bool, reduction: Reduction | None
) -> ShardingRule:
    kind = REPLICATE if reduction is None else REDUCE
    dims = [
        op.dim(size, kind if axis in reduced else PASS, reduction=reduction)
        for axis, size in enumerate(shape)
    ]
    result: list[Dim] = [
        () if axis in reduced else dim
        for axis, dim in enumerate(dims)
        if keep or axis not in reduced
    ]
    return op.rule([dims], [result])


@RULES.of("GlobalAveragePool", inputs=1, reduction="mean")
@RULES.of("GlobalMaxPool", inputs=1, reduction="max")
@RULES.of("GlobalLpPool", inputs=1, reduction=None)
def global_pool(op: OpRule, shape: Shape, reduction: Reduction | None) -> ShardingRule:
    """`n c y+ x+ -> n c 1 1`."""
    return _along(op, shape, set(range(2, len(shape))), True, reduction)


@RULES.of("Det", inputs=1)
def determinant(op: OpRule, shape: Shape) -> ShardingRule:
    """`* !n !m -> *`."""
    return _along(op, shape, {len(shape) - 2, len(shape) - 1}, False, None)


@RULES.of("CumSum", "CumProd", inputs=1)
def running(op: OpRule, shape: Shape) -> ShardingRule:
    """`a !k, _ -> a !k`: every element depends on those before it."""
    if not op.constants.get(1):
        return op.whole()
    return op.same_shape(shape, {op.constants[1][0] % len(shape)})
