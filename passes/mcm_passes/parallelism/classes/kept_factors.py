"""Dimensions of several factors whose major one cannot be divided: then the next one is.

A projection to queries, keys and values that is reshaped to `3 h d` belongs to the factor of 3.
Where that is taken apart later, by a `Gather` or a `Split`, it has to stay whole, and the heads
below it would stay whole with it. They are free if the op that merges them is read as one that
needs the factor of 3 whole: every device then has its heads of each of the three.

Nothing that could be divided before is lost. What an op is read otherwise for was blocked, and so
was what is below it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule
from mcm_passes.parallelism.classes import joined_dimensions
from mcm_passes.parallelism.rules.rule_templates import Block, SlotTemplate, rule_template
from mcm_passes.parallelism.rules.ruled_graph import RuledGraph, template_table

_MAY_BE_FREE = (Block.NONE, Block.MINOR)
"""Reasons to block that are none, or go away with what is above."""

_DIVISIBLE = (FactorKind.PASS, FactorKind.REDUCE)

Kept = dict[int, frozenset[int]]
"""Of ops the factors that are kept whole."""


def divided_below_whole(
    ruled: RuledGraph, joined: joined_dimensions.JoinedDimensions
) -> tuple[RuledGraph, joined_dimensions.JoinedDimensions]:
    """The graph with such ops read otherwise, and its classes.

    Args:
        ruled: the graph.
        joined: its classes.
    """
    kept = _candidates(ruled, joined)
    if not kept:
        return ruled, joined
    tried = _with_kept(ruled, kept)
    found = joined_dimensions.join_dimensions(tried)
    useful = {
        node: factors
        for node, given in kept.items()
        if (factors := _useful(tried, found, node, given))
    }
    if useful == kept:
        return tried, found
    if not useful:
        return ruled, joined
    tried = _with_kept(ruled, useful)
    return tried, joined_dimensions.join_dimensions(tried)


def _candidates(ruled: RuledGraph, joined: joined_dimensions.JoinedDimensions) -> Kept:
    """Factors that are blocked for themselves, above others that nothing but their place blocks."""
    node, row = joined_dimensions.rows_of_rules(ruled.rules.merged_ptr, ruled.node_rule)
    if not len(node):
        return {}
    slot, place, factor = ruled.rules.merged[row].T
    of_factor = joined.factor_class[joined.factor_ptr[node] + factor]
    is_blocked = of_factor >= 0
    is_blocked[is_blocked] = ~np.isin(joined.block[of_factor[is_blocked]], _MAY_BE_FREE)
    kept: dict[int, set[int]] = defaultdict(set)
    columns = (node[is_blocked], slot[is_blocked], place[is_blocked])
    for number, at, dim in zip(*(column.tolist() for column in columns), strict=True):
        kept[number] |= _to_keep(ruled, joined, number, at, dim)
    return {number: frozenset(factors) for number, factors in kept.items() if factors}


def _to_keep(
    ruled: RuledGraph, joined: joined_dimensions.JoinedDimensions, node: int, slot: int, dim: int
) -> set[int]:
    """Factors of a dimension above the first that may be free; none if there is no such one."""
    rule = ruled.rule_of(node).rule
    first = int(joined.factor_ptr[node])
    above: set[int] = set()
    for factor in _dim(rule, slot, dim):
        if rule.factors[factor].size is None:
            break
        if rule.factors[factor].size == 1 or rule.factors[factor].kind is FactorKind.REPLICATE:
            continue
        index = int(joined.factor_class[first + factor])
        block = Block(int(joined.block[index])) if index >= 0 else Block.MINOR
        if above and block in _MAY_BE_FREE and rule.factors[factor].kind in _DIVISIBLE:
            return above
        above.add(factor)
    return set()


def _dim(rule: ShardingRule, slot: int, dim: int) -> tuple[int, ...]:
    dims = (rule.inputs + rule.outputs)[slot]
    assert dims is not None
    return dims[dim]


def _with_kept(ruled: RuledGraph, kept: Kept) -> RuledGraph:
    templates: list[SlotTemplate] = list(ruled.rules.templates)
    numbers: dict[tuple[int, frozenset[int]], int] = {}
    node_rule: NDArray[np.int32] = ruled.node_rule.copy()
    for node, factors in kept.items():
        key = int(ruled.node_rule[node]), factors
        if key not in numbers:
            numbers[key] = len(templates)
            templates.append(_keeping(templates[key[0]].rule, factors))
        node_rule[node] = numbers[key]
    return replace(ruled, node_rule=node_rule, rules=template_table(templates))


def _keeping(rule: ShardingRule, kept: frozenset[int]) -> SlotTemplate:
    factors = tuple(
        replace(factor, kind=FactorKind.REPLICATE, reduction="sum") if index in kept else factor
        for index, factor in enumerate(rule.factors)
    )
    return rule_template(replace(rule, factors=factors), kept)


def _useful(
    tried: RuledGraph, found: joined_dimensions.JoinedDimensions, node: int, kept: frozenset[int]
) -> frozenset[int]:
    """Those of the kept factors below which something can be divided now."""
    rule = tried.rule_of(node).rule
    useful: set[int] = set()
    first = int(tried.slot_ptr[node])
    for slot, dim, _, _, runs in tried.rule_of(node).members.tolist():
        value = int(tried.slot_value[first + slot])
        if runs == 1 or value < 0 or dim >= tried.rank(value):
            continue
        index = int(found.class_of[int(tried.dim_ptr[value]) + dim])
        if index >= 0 and found.block[index] == Block.NONE and found.size[index] > 1:
            useful.update(kept.intersection(_dim(rule, slot, dim)))
    return frozenset(useful)
