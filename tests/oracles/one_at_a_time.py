"""Linkage groups as Auto-MAP extracts them: one dimension of one variable at a time.

Wang et al. 2020, section 3.2: divide a single dimension, follow what that forces on the tensors of
all ops until nothing changes, and note which other variables are divided by then. This takes time
that grows with variables times ops; the groups are the dimension classes, which are found in one
go. It stands here to check them, and shares no code with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule

Place = tuple[ir.Value, int]


@dataclass(frozen=True)
class Extracted:
    """What dividing one dimension leads to.

    Attributes:
        divided: all dimensions that are divided with it, of all tensors.
        possible: no op needs one of them whole, none would have to divide two of its loops, and
            all agree in how many runs of consecutive elements the parts of a dimension are.
        loops: op (by its place in the sequence) and factor of all loops that are divided.
    """

    divided: frozenset[Place]
    possible: bool
    loops: frozenset[tuple[int, int]]


def extract(start: Place, ruled: Sequence[tuple[ir.Node, ShardingRule]]) -> Extracted:
    """Divides one dimension and follows it.

    Args:
        start: a value and its dimension.
        ruled: all ops with their rules.
    """
    divided = {start}
    loops: set[tuple[int, int]] = set()
    while True:
        before = len(divided), len(loops)
        for number, (node, rule) in enumerate(ruled):
            touched = _loops_of(node, rule, divided)
            loops.update((number, factor) for factor in touched)
            for factor in touched:
                divided.update(_places(node, rule, factor))
        if (len(divided), len(loops)) == before:
            break
    return Extracted(frozenset(divided), _is_possible(divided, loops, ruled), frozenset(loops))


def exclude_each_other(one: Extracted, other: Extracted) -> bool:
    """Whether two divisions that do not include each other meet in an op."""
    nodes = {number for number, _ in one.loops}
    return any(number in nodes for number, _ in other.loops)


def _slots(node: ir.Node, rule: ShardingRule) -> list[tuple[ir.Value, Sequence[Sequence[int]]]]:
    sides = (*zip(node.inputs, rule.inputs, strict=False),)
    sides += (*zip(node.outputs, rule.outputs, strict=False),)
    return [(value, dims) for value, dims in sides if value is not None and dims is not None]


def _major(rule: ShardingRule, dim: Sequence[int]) -> int | None:
    """The first factor that the op does not need whole; the first, if it needs all of them."""
    proper = [factor for factor in dim if rule.factors[factor].size != 1]
    free = (f for f in proper if rule.factors[f].kind is not FactorKind.REPLICATE)
    return next(free, proper[0] if proper else None)


def _loops_of(node: ir.Node, rule: ShardingRule, divided: set[Place]) -> set[int]:
    found = {
        _major(rule, dim)
        for value, dims in _slots(node, rule)
        for at, dim in enumerate(dims)
        if (value, at) in divided
    }
    return {factor for factor in found if factor is not None}


def _places(node: ir.Node, rule: ShardingRule, factor: int) -> set[Place]:
    return {
        (value, at)
        for value, dims in _slots(node, rule)
        for at, dim in enumerate(dims)
        if _major(rule, dim) == factor and value.shape is not None and value.shape[at] != 1
    }


def _is_possible(
    divided: set[Place], loops: set[tuple[int, int]], ruled: Sequence[tuple[ir.Node, ShardingRule]]
) -> bool:
    if len({number for number, _ in loops}) < len(loops):
        return False
    for number, factor in loops:
        rule = ruled[number][1]
        if rule.factors[factor].kind not in (FactorKind.PASS, FactorKind.REDUCE):
            return False
        for _, dims in _slots(*ruled[number]):
            for dim in dims:
                if factor in dim and _major(rule, dim) != factor:
                    return False
    if not _agree_in_runs(divided, ruled):
        return False
    for value, at in divided:
        for node, rule in ruled:
            sides = (*zip(node.inputs, rule.inputs, strict=False),)
            sides += (*zip(node.outputs, rule.outputs, strict=False),)
            for used, dims in sides:
                if used is value and (dims is None or _major(rule, dims[at]) is None):
                    return False
    return True


def _agree_in_runs(divided: set[Place], ruled: Sequence[tuple[ir.Node, ShardingRule]]) -> bool:
    """Whether some number of runs for each dimension and loop suits all ops.

    Begins with one run everywhere, and makes what is too few as many as is asked for, until
    nothing changes or the runs would be longer than what they are cut from.
    """
    runs = dict.fromkeys(divided, 1)
    loops: dict[tuple[int, int], int] = {}
    while True:
        before = dict(runs), dict(loops)
        for number, (node, rule) in enumerate(ruled):
            for value, dims in _slots(node, rule):
                for at, dim in enumerate(dims):
                    factor = _major(rule, dim)
                    if (value, at) not in divided or factor is None:
                        continue
                    above = math.prod(rule.factors[f].size or 1 for f in dim[: dim.index(factor)])
                    loop, place = (number, factor), (value, at)
                    # Runs of the dimension are those of the loop, times what is above it.
                    runs[place] = math.lcm(runs[place], above * loops.get(loop, 1))
                    loops[loop] = math.lcm(loops.get(loop, 1), runs[place] // above)
                    extent = value.shape[at] if value.shape is not None else None
                    uneven = isinstance(extent, int) and extent % runs[place]
                    if (rule.factors[factor].size or 0) % loops[loop] or uneven:
                        return False
        if (runs, loops) == before:
            return True
