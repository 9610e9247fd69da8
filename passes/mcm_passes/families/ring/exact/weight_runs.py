"""Work that must stay together because its units share a weight (our derivation).

The steps of a recurrence use one weight after each other. Of those that a chip runs, none is left
out between the first and the last, so that all work between them is on that chip as well. What
lies between two steps is therefore counted with the earlier one; a chip that runs a part of such a
run counts at most one gap too much. How many runs a chip can hold parts of is limited by its
memory, because it needs the weight of each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.mapping.bounds.work_around import WorkAround
from mcm_passes.mapping.problem.resident_sizes import weight_blocks
from mcm_passes.mapping.problem.rule_graph import RuleGraph, members_of, weight_users

LEAST_SHARE = 0.01
"""Share of all work from which on a run is worth looking at."""


@dataclass(frozen=True, eq=False)
class WeightRuns:
    """Work with gaps counted elsewhere, and by how much that can be wrong.

    On each chip of each valid partition the sum of `work_s` is at most what the chip is really
    busy for, plus `gap_s` of every run that it holds a part of.

    Attributes:
        work_s: `[n]`, seconds of each node.
        users: nodes of each of the G runs, ascending.
        gap_s: `[G]`, seconds that each node of a run counts more than it takes.
        room: `[G]`, memory blocks of the weights that each node of a run needs.
    """

    work_s: Floats
    users: tuple[Ints, ...]
    gap_s: Floats
    room: Longs

    def excess_s(self, windows: ChipWindows, chips: int, sram_room: Longs | None) -> Floats:
        """`[C]`, the most that sums of `work_s` on a chip can be beyond its work.

        Args:
            windows: the chips that each node can be on.
            chips: C.
            sram_room: `[C]`, memory blocks of each chip, or None where weights can be streamed.
        """
        excess = np.zeros(chips)
        lowest = np.array([windows.low[users].min() for users in self.users])
        highest = np.array([windows.high[users].max() for users in self.users])
        for chip in range(chips):
            here = (lowest <= chip) & (chip <= highest)
            gaps = np.sort(self.gap_s[here])[::-1]
            count = gaps.size
            if sram_room is not None:
                held = np.cumsum(np.sort(self.room[here]))
                count = int(np.searchsorted(held, sram_room[chip], side="right"))
            excess[chip] = gaps[:count].sum()
        return excess


def weight_runs(problem: PartitionProblem, around: WorkAround) -> WeightRuns:
    """The runs of a problem; there are none where no weight is shared along a path."""
    work_s, least_s = around.own_s.copy(), LEAST_SHARE * float(around.own_s.sum())
    blocks_of = _shared_blocks(problem, around.graph)
    alone = np.ones(work_s.size, np.bool_)
    for users in blocks_of:
        alone[list(users)] = False
    seconds = {users: float(work_s[list(users)].sum()) for users in blocks_of}
    heavy = [users for users in blocks_of if seconds[users] >= least_s]
    between = {
        users: inside & alone
        for users in sorted(heavy, key=lambda users: -seconds[users])
        if (inside := _between(np.array(users), around)) is not None
    }
    # A run with wide gaps would make chips look roomier than others of its kind are.
    most_s = _weighted_median(
        np.array([(inside @ work_s).min() for inside in between.values()]),
        np.array([seconds[users] for users in between]),
    )
    kept: list[Ints] = []
    gaps: list[float] = []
    for users, inside in between.items():
        inside_s = inside @ work_s
        gap = min(float(inside_s.min()), most_s)
        if gap > 0.0:
            work_s *= 1.0 - (gap / inside_s) @ inside
            kept.append(np.array(users, np.int32))
            work_s[kept[-1]] += gap
            gaps.append(gap)
    room = [blocks_of[tuple(users.tolist())] for users in kept]
    return WeightRuns(work_s, tuple(kept), np.array(gaps), np.array(room, np.int64))


def _shared_blocks(problem: PartitionProblem, graph: RuleGraph) -> dict[tuple[int, ...], int]:
    """The memory blocks of all weights that the same nodes share, by these nodes."""
    users = weight_users(problem, graph)
    found: dict[tuple[int, ...], int] = {}
    for w, blocks in enumerate(weight_blocks(problem).tolist()):
        key = tuple(users.row(w).tolist())
        if len(key) > 1:
            found[key] = found.get(key, 0) + blocks
    return found


def _between(users: Longs, around: WorkAround) -> Bools | None:
    """`[k - 1, n]`, the nodes between neighbours of k users; None if these are on no path."""
    earlier, later = users[:-1], users[1:]
    words = around.descendants[earlier, later >> 6]
    if not (words >> (later & 63).astype(np.uint64) & np.uint64(1)).all():
        return None
    return members_of(around.descendants[earlier] & around.ancestors[later], around.own_s.size)


def _weighted_median(values: Floats, weights: Floats) -> float:
    if not values.size:
        return 0.0
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(passed, 0.5 * passed[-1])]])
