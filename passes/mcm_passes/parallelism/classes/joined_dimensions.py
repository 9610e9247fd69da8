"""From the rules of a graph to its classes, in whole-array operations.

Joining dimensions is finding the connected components of a graph over them, whose edges are the
factors of ops. Compiled loops would do it in half the time, after seconds of compiling them.

A part is one contiguous run unless ops join pieces. Of queries, keys and values that are `Split`
from one projection, `(!c d) -> d, d, d`, each device has a part of each: three runs of the
projection. Ops fix how the runs of their dimensions compare, not how many
there are, so that from one dimension of a class follow those of all others. The least whole
numbers are taken.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mcm_compiler.arrays.rows import Entries, Rows
from mcm_compiler.arrays.types import Bools, Ints, Longs
from mcm_passes.parallelism.rules.rule_templates import Block
from mcm_passes.parallelism.rules.ruled_graph import RuledGraph

_FREE = len(Block)
"""More than any reason to block."""


@dataclass(frozen=True, eq=False)
class JoinedDimensions:
    """Classes of all dimensions.

    Attributes:
        class_of: `[dims]` int32, class of each dimension; -1 for one of size 1.
        runs: `[dims]` int64, of how many runs of consecutive elements a part of each dimension is
            made: 1 where parts are contiguous, 3 for queries, keys and values side by side. Every
            run is divided alike.
        size: `[classes]` int64, in how many units a class can be divided: the smallest number that
            the runs of all members divide into, 0 where it is unknown.
        block: `[classes]` int32 `Block`, why a class cannot be divided.
        factor_ptr: `[nodes + 1]` int64, the factors of an op are `factor_ptr[n]:factor_ptr[n + 1]`.
        factor_class: class of each factor of each op; -1 for one that divides nothing.
        met_at: `[classes]` int32, the op of which two factors are of this class, or that asks for
            other runs than those before it; -1 for none.
    """

    class_of: Ints
    runs: Longs
    size: Longs
    block: Ints
    factor_ptr: Longs
    factor_class: Ints
    met_at: Ints


def join_dimensions(ruled: RuledGraph) -> JoinedDimensions:
    """Finds the classes of a graph; classes are numbered in the order of their first dimension."""
    rules, extents = ruled.rules, ruled.extents
    blocks = rules.blocks.chosen(ruled.node_rule)
    factor_ptr = blocks.ptr
    dim, factor, units, above, why = _members(ruled, blocks)

    # Dimensions of one factor, one after the other, are an edge each.
    order = np.argsort(factor, kind="stable")
    dim, factor, units, above = dim[order], factor[order], units[order], above[order]
    why = why[order]
    same = factor[1:] == factor[:-1]
    class_of, count = _components(len(extents), dim[:-1][same], dim[1:][same], extents != 1)
    runs, in_run, apart = _in_runs(ruled, class_of[dim], dim, factor, units, above)

    of_dims = extents // runs
    np.gcd.at(of_dims, dim, in_run)
    size = np.zeros(count, dtype=np.int64)
    has_class = class_of >= 0
    np.gcd.at(size, class_of[has_class], of_dims[has_class])

    first = np.ones(len(factor), dtype=bool)
    first[1:] = ~same
    factor_class = np.full(int(factor_ptr[-1]), -1, dtype=np.int32)
    factor_class[factor[first]] = class_of[dim[first]]
    block = np.full(count, _FREE, dtype=np.int32)
    for dims, reasons in ((dim, why), _stuck(ruled), _of_other_rank(ruled)):
        classes = class_of[dims]
        given = (classes >= 0) & (reasons != Block.NONE)
        np.minimum.at(block, classes[given], reasons[given])
    met_at = _met_itself(factor_ptr, factor_class, count)
    np.minimum.at(block, np.flatnonzero(met_at >= 0), int(Block.ITSELF))
    for index, at in apart.items():
        block[index] = min(block[index], int(Block.RUNS))
        if met_at[index] < 0:
            met_at[index] = np.searchsorted(factor_ptr, at, side="right") - 1
    block[block == _FREE] = Block.NONE
    return JoinedDimensions(class_of, runs, size, block, factor_ptr, factor_class, met_at)


def meeting_classes(factor_ptr: Longs, factor_class: Ints, number: Ints, count: int) -> Bools:
    """Pairs of some classes that meet in an op.

    Args:
        factor_ptr: `[nodes + 1]`, factors of each op.
        factor_class: class of each factor, -1 for none.
        number: `[classes]`, number of each class among those asked for, or -1.
        count: how many are asked for.

    Returns:
        `[count, count]`, symmetric, diagonal empty.
    """
    meet = np.zeros((count, count), dtype=np.bool_)
    asked = factor_class >= 0
    asked[asked] = number[factor_class[asked]] >= 0
    node = np.repeat(np.arange(len(factor_ptr) - 1), np.diff(factor_ptr))[asked]
    classes = number[factor_class[asked]]
    for distance in range(1, int(np.max(np.diff(factor_ptr), initial=0))):
        together = node[distance:] == node[:-distance]
        one, other = classes[distance:][together], classes[:-distance][together]
        meet[one, other] = meet[other, one] = True
    np.fill_diagonal(meet, False)
    return meet


def _in_runs(
    ruled: RuledGraph, of_member: Ints, dim: Longs, factor: Longs, units: Longs, above: Longs
) -> tuple[Longs, Longs, dict[int, int]]:
    """Runs of all dimensions, and units of each member within one run of its factor.

    Returns:
        Both, and the classes whose members do not fit into runs, with a factor that does not.
    """
    num_dims = len(ruled.extents)
    if bool(np.all(above == 1)):
        return np.ones(num_dims, dtype=np.int64), units, {}
    runs, apart = division_runs(num_dims, dim, factor, above, of_member)
    of_factor = np.maximum(runs[dim] // above, 1)
    uneven = (units % of_factor != 0) | (ruled.extents[dim] % runs[dim] != 0)
    for index, at in zip(of_member[uneven].tolist(), factor[uneven].tolist(), strict=True):
        apart.setdefault(index, at)
    contiguous = np.isin(of_member, list(apart))
    runs[dim[contiguous]] = 1
    of_factor[contiguous] = 1
    return runs, units // of_factor, apart


def _members(ruled: RuledGraph, blocks: Rows) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """Of every member of a factor in the graph what is known of it.

    Returns:
        Its dimension, the factor, units, points of what is above it, and the reason to block.
    """
    members = ruled.rules.members.chosen(ruled.node_rule)
    node = members.owners
    slot, place, factor, units, above = members.entries.T
    value = ruled.slot_value[ruled.slot_ptr[node] + slot]
    first = ruled.dim_ptr[value]
    here = (value >= 0) & (place < ruled.dim_ptr[value + 1] - first)
    dim = np.where(here, first + place, 0)
    if len(ruled.extents):
        here &= ruled.extents[dim] != 1
    whole = blocks.ptr[node] + factor
    return dim[here], whole[here], units[here], above[here], blocks.entries[whole[here]]


def _stuck(ruled: RuledGraph) -> tuple[Entries, Entries]:
    """Dimensions that ops, or patterns of ops, need whole, with the reasons."""
    stuck = ruled.rules.stuck.chosen(ruled.node_rule)
    slot, place, why = stuck.entries.T
    value = ruled.slot_value[ruled.slot_ptr[stuck.owners] + slot]
    one = (value >= 0) & (place >= 0)
    one &= place < ruled.dim_ptr[value + 1] - ruled.dim_ptr[value]
    every = (value >= 0) & (place < 0)
    dims, reasons = _all_dims(ruled, value[every], why[every])
    return (
        np.concatenate([ruled.dim_ptr[value[one]] + place[one], dims, ruled.stuck_dims]),
        np.concatenate([why[one], reasons, ruled.stuck_why]),
    )


def _of_other_rank(ruled: RuledGraph) -> tuple[Entries, Entries]:
    """All that ops touch of whose values one has another rank than in the rule, or an unknown one.

    The factors of such a value cannot be followed.
    """
    ranks = ruled.rules.ranks.chosen(ruled.node_rule)
    node, rank, value = ranks.owners, ranks.entries, ruled.slot_value
    wrong = (value >= 0) & (rank >= 0)
    wrong &= ruled.dim_ptr[value + 1] - ruled.dim_ptr[value] != rank
    found = value[np.isin(node, node[wrong]) & (value >= 0)]
    return _all_dims(ruled, found, np.full(len(found), int(Block.UNKNOWN)))


def _all_dims(ruled: RuledGraph, value: Entries, why: Entries) -> tuple[Entries, Entries]:
    ranks = ruled.dim_ptr[value + 1] - ruled.dim_ptr[value]
    before = np.cumsum(ranks) - ranks
    dims = np.arange(int(ranks.sum())) + np.repeat(ruled.dim_ptr[value] - before, ranks)
    return dims, np.repeat(why, ranks)


def _met_itself(factor_ptr: Longs, factor_class: Ints, count: int) -> Ints:
    """Of each class the first op of which two factors are of it; -1 for none."""
    node = np.repeat(np.arange(len(factor_ptr) - 1, dtype=np.int64), np.diff(factor_ptr))
    given = factor_class >= 0
    keys = np.sort(node[given] * max(count, 1) + factor_class[given])
    twice = keys[1:][keys[1:] == keys[:-1]][::-1]
    met_at = np.full(count, -1, dtype=np.int32)
    met_at[twice % max(count, 1)] = twice // max(count, 1)
    return met_at


def _components(num_dims: int, one: Longs, other: Longs, is_divisible: Bools) -> tuple[Ints, int]:
    """Number of the component of each divisible dimension, -1 for others, and how many there are.

    Components are numbered in the order of their first dimension.
    """
    class_of = np.full(num_dims, -1, dtype=np.int32)
    if not is_divisible.any():
        return class_of, 0
    labels = _least_of_component(num_dims, one, other)
    seen, first, inverse = np.unique(labels[is_divisible], return_index=True, return_inverse=True)
    rank = np.empty(len(seen), dtype=np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(len(seen), dtype=np.int32)
    class_of[is_divisible] = rank[inverse.reshape(-1)]
    return class_of, len(seen)


def _least_of_component(count: int, one: Longs, other: Longs) -> Ints:
    """Of each of `count` nodes the least node that edges `(one[k], other[k])` join it to."""
    least = np.arange(count, dtype=np.int32)
    while (least[one] != least[other]).any():
        # Where the least of two nodes differ, the greater one is hooked to the smaller one.
        np.minimum.at(least, least[one], least[other])
        np.minimum.at(least, least[other], least[one])
        # Each node then follows its way down to the end.
        while not np.array_equal(further := least[least], least):
            least = further
    return least


ONE = Fraction(1)


def division_runs(
    num_dims: int, dim: Longs, factor: Longs, above: Longs, of_member: Ints
) -> tuple[Longs, dict[int, int]]:
    """Runs of every dimension, and classes for which there are none.

    Args:
        num_dims: dimensions of the graph.
        dim: `[M]`, the dimension of each member of a factor of an op.
        factor: `[M]`, the factor, numbered over all ops.
        above: `[M]`, runs of the dimension for each run of the factor.
        of_member: `[M]`, the class of the dimension.

    Returns:
        `[num_dims]` runs; classes whose ops contradict each other, with a factor that does.
    """
    runs = np.ones(num_dims, dtype=np.int64)
    joined = np.unique(of_member[above != 1])
    if not len(joined):
        return runs, {}
    contradicting: dict[int, int] = {}
    rows = np.flatnonzero(np.isin(of_member, joined))
    of_class: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = (of_member[rows], dim[rows], factor[rows], above[rows])
    for index, *member in zip(*(column.tolist() for column in columns), strict=True):
        of_class[index].append((member[0], member[1], member[2]))
    for index, members in of_class.items():
        found = _of_class(members)
        if isinstance(found, int):
            contradicting[index] = found
        else:
            runs[list(found)] = list(found.values())
    return runs, contradicting


def _of_class(members: Sequence[tuple[int, int, int]]) -> dict[int, int] | int:
    """The least runs of the dimensions of one class, or a factor that contradicts others."""
    of_dim: dict[int, list[tuple[int, int]]] = defaultdict(list)
    of_factor: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for dim, factor, above in members:
        of_dim[dim].append((factor, above))
        of_factor[factor].append((dim, above))
    start = members[0][0]
    relative = {start: ONE}
    of_loops: dict[int, Fraction] = {}
    pending = deque([start])
    while pending:
        dim = pending.popleft()
        for factor, above in of_dim[dim]:
            loop = relative[dim] / above
            if of_loops.setdefault(factor, loop) != loop:
                return factor
            for other, over in of_factor[factor]:
                if other not in relative:
                    relative[other] = loop * over
                    pending.append(other)
    scale = math.lcm(*(loop.denominator for loop in of_loops.values()))
    least = math.gcd(*(int(loop * scale) for loop in of_loops.values()))
    return {dim: int(found * scale) // least for dim, found in relative.items()}
