"""From which to which chip each unit can sit at a given period."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs, PartitionProblem
from mcm_passes.partitioning.fast_model import ALIGNMENT, aligned
from mcm_passes.solver.rule_graph import RuleGraph, Words, closure

SLACK = 1e-9
"""Relative room for sums that the fast model adds in another order."""


class WorkAround(NamedTuple):
    """What must be done before and after each of n nodes.

    Attributes:
        before_s: `[n]`, seconds of all ancestors.
        after_s: `[n]`, seconds of all descendants.
        before_room: `[n]`, memory blocks of the weights that ancestors alone use.
        after_room: `[n]`, likewise of descendants.
        own_s: `[n]`, seconds of the node.
        own_room: `[n]`, blocks of the weights that it alone uses.
    """

    before_s: Floats
    after_s: Floats
    before_room: Floats
    after_room: Floats
    own_s: Floats
    own_room: Floats


class ChipWindows(NamedTuple):
    """`[n]` each: the lowest and the highest chip of each node; empty where low > high."""

    low: Ints
    high: Ints

    @property
    def empty(self) -> bool:
        """Whether some node has no chip left."""
        return bool((self.low > self.high).any())


def work_around(problem: PartitionProblem, graph: RuleGraph) -> WorkAround:
    """Sums over all ancestors and all descendants; n^2 / 4 bytes and n^2 additions."""
    ancestors, descendants = closure(graph)
    own_s = problem.compute_s[graph.units]
    alone = np.flatnonzero(np.diff(problem.weight_ptr) == 1)
    room = np.zeros(problem.num_units)
    users = problem.weight_users[problem.weight_ptr[alone]]
    np.add.at(room, users, aligned(problem.weight_bytes[alone]) / ALIGNMENT)
    own_room = np.zeros(graph.num_nodes) if problem.streams else room[graph.units]
    return WorkAround(
        _sums(ancestors, own_s),
        _sums(descendants, own_s),
        _sums(ancestors, own_room),
        _sums(descendants, own_room),
        own_s,
        own_room,
    )


def chip_windows(
    problem: PartitionProblem, graph: RuleGraph, around: WorkAround, period_s: float
) -> ChipWindows:
    """The chips that each node can be on in any valid partition within `period_s`.

    The lowest chip of a node is found by filling chips from the first on, with its ancestors and
    then with itself. There are three ways, and each says "the node is on chip c or later, and if
    it is on c, then so much of its ancestors' work is on c too"; such statements are compared by
    chip and then by load. All ancestors are poured in as if their work were sand; or a direct
    predecessor's statement holds, whose own work is not divided; or the statement of the nearest
    unit that all paths to the node pass, and all work between the two is poured in after it.
    Weights fill chips in the same way where they cannot be streamed. The highest chip follows in
    the same way from the last chip on.

    Args:
        problem: the problem.
        graph: its rule graph.
        around: its `work_around`.
        period_s: the period; every bound on chips holds for all smaller periods too.
    """
    speed = problem.chip_speed * (period_s * (1.0 + SLACK))
    room = np.array(problem.limits.sram_bytes, np.float64) // ALIGNMENT
    ptr, nodes = graph.before_ptr, graph.before_nodes
    low = _lowest(ptr, nodes, graph.low, around.own_s, around.before_s, speed)
    low = _lowest(ptr, nodes, low, around.own_room, around.before_room, room)
    # The same from the other end: numbering nodes and chips backwards turns the ring round.
    last = problem.num_chips - 1
    ptr, nodes = _reversed_adjacency(graph.next_ptr, graph.next_nodes)
    high = (last - graph.high[::-1]).astype(np.int32)
    for own, after, capacity in (
        (around.own_s, around.after_s, speed),
        (around.own_room, around.after_room, room),
    ):
        high = _lowest(
            ptr, nodes, high, own[::-1].copy(), after[::-1].copy(), capacity[::-1].copy()
        )
    return ChipWindows(low, (last - high[::-1]).astype(np.int32))


def _reversed_adjacency(ptr: Longs, nodes: Ints) -> tuple[Longs, Ints]:
    n = ptr.size - 1
    return (ptr[-1] - ptr[::-1]).astype(np.int64), (n - 1 - nodes[::-1]).astype(np.int32)


@njit(cache=True)
def _sums(bits: Words, values: Floats) -> Floats:
    n = values.size
    total = np.zeros(n)
    for v in range(n):
        for k in range(bits.shape[1]):
            word = bits[v, k]
            if word:
                for u in range(k << 6, min((k + 1) << 6, n)):
                    if word >> np.uint64(u & 63) & np.uint64(1):
                        total[v] += values[u]
    return total


@njit(cache=True)
def _lowest(
    before_ptr: Longs,
    before_nodes: Ints,
    floor: Ints,
    own: Floats,
    before: Floats,
    capacity: Floats,
) -> Ints:
    """`[n]`, the lowest chip of each node; the number of chips where it has none."""
    n, chips = own.size, capacity.size
    low = np.zeros(n, np.int32)
    load = np.zeros(n)
    # The nearest node that all paths from the sources pass; -1 for none.
    gate = np.full(n, -1, np.int64)
    for v in range(n):
        chip, held = 0, before[v] * (1.0 - SLACK)
        while chip < chips and held > capacity[chip]:
            held -= capacity[chip]
            chip += 1
        for e in range(before_ptr[v], before_ptr[v + 1]):
            u = before_nodes[e]
            if low[u] > chip or (low[u] == chip and load[u] > held):
                chip, held = low[u], load[u]
            if e == before_ptr[v]:
                gate[v] = u
            else:
                a, b = gate[v], np.int64(u)
                while a != b:
                    if a > b:
                        a = gate[a]
                    else:
                        b = gate[b]
                gate[v] = a
        g = gate[v]
        if g >= 0:
            at, sand = low[g], load[g]
            # A difference of sums, so the slack is of the sums.
            sand += max(before[v] - before[g] - own[g] - SLACK * before[v], 0.0)
            while at < chips and sand > capacity[at]:
                sand -= capacity[at]
                at += 1
            if at > chip or (at == chip and sand > held):
                chip, held = at, sand
        if floor[v] > chip:
            chip, held = floor[v], 0.0
        while chip < chips and held + own[v] > capacity[chip]:
            chip += 1
            held = 0.0
        low[v] = chip
        load[v] = held + own[v]
    return low
