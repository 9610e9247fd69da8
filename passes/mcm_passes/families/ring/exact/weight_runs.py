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
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words, weight_users

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
        if not self.users:
            return excess
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
    work_s = around.own_s.copy()
    runs = _users_of_weights(problem, around.graph)
    shared = np.zeros(work_s.size, np.bool_)
    for users, _ in runs:
        shared[users] = True
    found: list[_Run] = []
    least_s = LEAST_SHARE * float(work_s.sum())
    for users, room in sorted(runs, key=lambda run: -float(work_s[run[0]].sum())):
        seconds = float(work_s[users].sum())
        if seconds < least_s:
            break
        between = _between(users, around.ancestors, around.descendants, shared)
        if between is not None:
            found.append(_Run(users, room, between, seconds))
    # A run with wide gaps would make chips look roomier than others of its kind are.
    most_s = _weighted_median(
        [run.least_gap(work_s) for run in found], [run.work_s for run in found]
    )
    kept: list[tuple[_Run, float]] = []
    for run in found:
        gap = min(run.least_gap(work_s), most_s)
        if gap <= 0.0:
            continue
        for inside in run.between:
            work_s[inside] *= 1.0 - gap / float(work_s[inside].sum())
        work_s[run.users] += gap
        kept.append((run, gap))
    return WeightRuns(
        work_s,
        tuple(run.users for run, _ in kept),
        np.array([gap for _, gap in kept]),
        np.array([run.room for run, _ in kept], np.int64),
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """Users of a weight along one path, and what lies between neighbours."""

    users: Ints
    room: int
    between: list[Bools]
    work_s: float

    def least_gap(self, work_s: Floats) -> float:
        return min(float(work_s[inside].sum()) for inside in self.between)


def _weighted_median(values: list[float], weights: list[float]) -> float:
    if not values:
        return 0.0
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(np.array(weights)[order])
    return values[int(order[int(np.searchsorted(passed, 0.5 * passed[-1]))])]


def _users_of_weights(problem: PartitionProblem, graph: RuleGraph) -> list[tuple[Ints, int]]:
    """The nodes that share weights, and the blocks of all weights that the same nodes share."""
    users = weight_users(problem, graph)
    room_of: dict[tuple[int, ...], int] = {}
    for w, blocks in enumerate(weight_blocks(problem).tolist()):
        key = tuple(users.row(w).tolist())
        if len(key) > 1:
            room_of[key] = room_of.get(key, 0) + blocks
    return [(np.array(key, np.int32), room) for key, room in room_of.items()]


def _between(
    users: Ints, ancestors: Words, descendants: Words, shared: Bools
) -> list[Bools] | None:
    """What lies between neighbouring users, users of weights left out; None if not on one path."""
    found: list[Bools] = []
    for earlier, later in zip(users[:-1].tolist(), users[1:].tolist(), strict=True):
        if not int(ancestors[later, earlier >> 6]) >> (earlier & 63) & 1:
            return None
        bits = (descendants[earlier] & ancestors[later]).astype("<u8").view(np.uint8)
        inside = np.unpackbits(bits, bitorder="little")[: shared.size].astype(np.bool_)
        found.append(inside & ~shared)
    return found
