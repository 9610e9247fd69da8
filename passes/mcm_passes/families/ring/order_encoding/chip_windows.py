"""From which to which chip each unit can sit at a given period."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_passes.mapping.bounds.work_around import WorkAround
from mcm_passes.mapping.problem.resident_sizes import sram_blocks
from mcm_passes.mapping.problem.rule_graph import RuleGraph

SLACK = 1e-9
"""Relative room for sums that the fast model adds in another order."""


class ChipWindows(NamedTuple):
    """`[n]` each: the lowest and the highest chip of each node; empty where low > high."""

    low: Ints
    high: Ints

    @property
    def empty(self) -> bool:
        """Whether some node has no chip left."""
        return bool((self.low > self.high).any())

    @property
    def total_width(self) -> int:
        """Chips beyond the first, over all nodes."""
        return int((self.high - self.low).sum())


def chip_windows(
    problem: PartitionProblem, graph: RuleGraph, around: WorkAround, period_s: float
) -> ChipWindows:
    """The chips that each node can be on in any valid partition within `period_s`.

    The lowest chip of a node is found by filling chips from the first on, with its ancestors and
    then with itself. There are three ways, and each says "the node is on chip c or later, and if
    it is on c, then so much of its ancestors' work is on c too"; such statements are compared by
    chip and then by load. All ancestors are poured in as if their work were sand; or a direct
    predecessor's statement holds, whose own work is not divided; or the statement of its gate
    does, and all work between the two is poured in after it. Weights fill chips in the same way
    where they cannot be streamed. The highest chip follows in the same way from the last chip on.
    Where a node has one chip left, what both statements say of it must fit together.

    Args:
        problem: the problem.
        graph: its rule graph.
        around: its `work_around`.
        period_s: the period; every bound on chips holds for all smaller periods too.
    """
    speed = problem.chip_speed * (period_s * (1.0 + SLACK))
    room = sram_blocks(problem).astype(np.float64)
    before_ptr, before = graph.before_ptr, graph.before_nodes
    # From the other end: numbering nodes and chips backwards turns the ring round.
    last = problem.num_chips - 1
    after_ptr, after = _reversed_adjacency(graph.next_ptr, graph.next_nodes)
    gate_after = np.where(around.gate_after < 0, -1, graph.num_nodes - 1 - around.gate_after)
    # A copy, as numba compiles a kernel once more for an array that runs backwards.
    gate_after = gate_after[::-1].copy()
    low, from_end = graph.low, (last - graph.high[::-1]).astype(np.int32)
    full = np.zeros(graph.num_nodes, np.bool_)
    for own, above, below, capacity in (
        (around.own_s, around.before_s, around.after_s, speed),
        (around.own_room, around.before_room, around.after_room, room),
    ):
        low, load = _lowest(before_ptr, before, around.gate_before, low, own, above, capacity)
        from_end, load_from_end = _lowest(
            after_ptr,
            after,
            gate_after,
            from_end,
            own[::-1].copy(),
            below[::-1].copy(),
            capacity[::-1].copy(),
        )
        alone = low == last - from_end[::-1]
        held = load + load_from_end[::-1] - own
        full |= alone & (held > capacity[np.minimum(low, last)] * (1.0 + SLACK))
    high = last - from_end[::-1]
    return ChipWindows(low, np.where(full, low - 1, high).astype(np.int32))


def _reversed_adjacency(ptr: Longs, nodes: Ints) -> tuple[Longs, Ints]:
    n = ptr.size - 1
    return (ptr[-1] - ptr[::-1]).astype(np.int64), (n - 1 - nodes[::-1]).astype(np.int32)


@entry_njit
def _lowest(
    before_ptr: Longs,
    before_nodes: Ints,
    gate: Longs,
    floor: Ints,
    own: Floats,
    before: Floats,
    capacity: Floats,
) -> tuple[Ints, Floats]:
    """`[n]` each: the lowest chip of each node, and what is on it if the node is.

    The chip is the number of chips where the node has none.
    """
    n, chips = own.size, capacity.size
    low = np.zeros(n, np.int32)
    load = np.zeros(n)
    for v in range(n):
        chip, held = 0, before[v] * (1.0 - SLACK)
        while chip < chips and held > capacity[chip]:
            held -= capacity[chip]
            chip += 1
        for e in range(before_ptr[v], before_ptr[v + 1]):
            u = before_nodes[e]
            if low[u] > chip or (low[u] == chip and load[u] > held):
                chip, held = low[u], load[u]
        g = gate[v]
        if g >= 0:
            # A difference of sums, so the slack is that of the sums.
            between = before[v] - before[g] - own[g] - SLACK * before[v]
            at, sand = low[g], load[g] + max(between, 0.0)
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
    return low, load
