"""The best chain of order ideals: an exact optimum where a graph has few of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs, PartitionProblem
from mcm_passes.exact.chip_demands import ChipDemands, chip_demands
from mcm_passes.exact.ideal_windows import (
    Cuts,
    IdealWindows,
    PackingRatio,
    TriangleReading,
    WindowLimits,
    cuts_of,
    ideal_windows,
)
from mcm_passes.exact.order_ideals import OrderIdeals, order_ideals
from mcm_passes.partitioning.fast_model import ALIGNMENT, PACKING, STREAM_SLOTS
from mcm_passes.solver.rule_graph import closure, rule_graph

SLACK = 1e-9
"""Relative room for sums that the fast model adds in another order."""


@dataclass(frozen=True, eq=False)
class IdealOptimum:
    """The best partition under one reading of the rules, among those below a ceiling.

    Attributes:
        chip_of: `[N]`, or None where no partition is below the ceiling.
        period_s: its period, or the ceiling.
        ideals: ideals of the graph.
        windows: windows that were weighed.
    """

    chip_of: Ints | None
    period_s: float
    ideals: int
    windows: int


class _Package(NamedTuple):
    """The chips, with memory in blocks of `ALIGNMENT` bytes."""

    speed: Floats
    sram_room: Longs
    link_bytes_per_s: float
    host_bytes_per_s: float
    stream_bytes_per_s: float


class IdealLattice:
    """A problem prepared for dynamic programming over its ideals."""

    def __init__(self, problem: PartitionProblem, ideals: OrderIdeals) -> None:
        self._problem = problem
        self._graph = rule_graph(problem)
        self._ideals = ideals
        self._demands = chip_demands(problem, self._graph)
        self._cuts = cuts_of(ideals, self._demands)

    @classmethod
    def of(cls, problem: PartitionProblem, most_ideals: int) -> IdealLattice | None:
        """None where the graph has more ideals, or no unit to place."""
        graph = rule_graph(problem)
        ideals = order_ideals(graph, most_ideals) if graph.num_nodes else None
        return None if ideals is None else cls(problem, ideals)

    def optimum(
        self, reading: TriangleReading, ceiling_s: float, most_windows: int
    ) -> IdealOptimum | None:
        """The smallest period below `ceiling_s`, with the fewest chips among equals.

        Every constraint but the triangle rule is local to one window between two ideals, so the
        smallest largest cost over chains of at most C windows is the exact optimum under the fast
        model and the given reading of that rule.

        Args:
            reading: how windows judge long dependencies.
            ceiling_s: partitions from this period on are not looked for; may be infinite.
            most_windows: give up beyond so many.

        Returns:
            None where there are more windows.
        """
        windows, complete = self._windows(reading, ceiling_s, most_windows)
        if not complete:
            return None
        best, came_from = _best_chain(
            self._demands, self._cuts, windows, self._pinned_sets(), self._package()
        )
        count, size = self._ideals.count, int(windows.end.size)
        last = best[:, count - 1]
        chips = int(last.argmin())
        if not last[chips] < ceiling_s:
            return IdealOptimum(None, ceiling_s, count, size)
        chip_of = np.zeros(self._problem.num_units, np.int32)
        members = self._ideals.members
        at = count - 1
        for chip in range(chips - 1, -1, -1):
            before = int(came_from[chip + 1, at])
            inside = members[at] & ~members[before]
            nodes = np.flatnonzero(
                np.unpackbits(inside.astype("<u8").view(np.uint8), bitorder="little")
            )
            chip_of[self._graph.units[nodes]] = chip
            at = before
        return IdealOptimum(chip_of, float(last[chips]), count, size)

    def _windows(
        self, reading: TriangleReading, ceiling_s: float, most_windows: int
    ) -> tuple[IdealWindows, bool]:
        problem = self._problem
        ancestors, descendants = closure(self._graph)
        packing = Fraction(PACKING)
        room = np.inf if problem.streams else max(problem.limits.sram_bytes) // ALIGNMENT
        return ideal_windows(
            self._demands,
            self._cuts,
            self._ideals.cover_ptr,
            self._ideals.covers,
            self._ideals.cover_node,
            ancestors,
            descendants,
            PackingRatio(packing.numerator, packing.denominator),
            WindowLimits(
                adjacent=reading == "adjacent",
                between=reading == "between",
                seconds=ceiling_s * float(problem.chip_speed.max()) * (1.0 + SLACK),
                crossing_bytes=ceiling_s * problem.limits.link_bytes_per_s * (1.0 + SLACK),
                room=float(room),
                windows=most_windows,
            ),
        )

    def _pinned_sets(self) -> Longs:
        """`[I, C + 1]`, how many nodes of each ideal are pinned to each chip, and to any."""
        pinned = self._demands.pinned
        chips = self._problem.num_chips
        held = np.zeros((self._ideals.count, chips + 1), np.int64)
        for v in np.flatnonzero(pinned >= 0).tolist():
            inside = (self._ideals.members[:, v >> 6] >> np.uint64(v & 63) & np.uint64(1)) > 0
            held[inside, chips] += 1
            if pinned[v] < chips:
                held[inside, pinned[v]] += 1
        return held

    def _package(self) -> _Package:
        limits = self._problem.limits
        return _Package(
            self._problem.chip_speed,
            np.array(limits.sram_bytes, np.int64) // ALIGNMENT,
            limits.link_bytes_per_s,
            limits.host_bytes_per_s,
            limits.stream_bytes_per_s,
        )


@njit(cache=True)
def _best_chain(
    d: ChipDemands, cuts: Cuts, windows: IdealWindows, pinned: Longs, package: _Package
) -> tuple[Floats, Ints]:
    """`[C + 1, I]` each: least period of k chips up to an ideal, and the ideal before.

    Infinite where k chips can't hold exactly that ideal.
    """
    count = cuts.crossing_bytes.size
    chips = package.speed.size
    full = count - 1
    best = np.full((chips + 1, count), np.inf)
    came_from = np.full((chips + 1, count), -1, np.int32)
    best[0, 0] = d.host_s
    for k in range(chips):
        for i in range(count):
            if not best[k, i] < np.inf:
                continue
            for p in range(windows.ptr[i], windows.ptr[i + 1]):
                j = windows.end[p]
                own = pinned[j, k] - pinned[i, k]
                if pinned[j, chips] - pinned[i, chips] != own:
                    continue
                room = windows.room[p]
                if k == 0:
                    room += d.entry_room
                if j == full:
                    room += d.exit_room
                period_s = max(best[k, i], windows.seconds[p] / package.speed[k])
                period_s = max(period_s, windows.in_bytes[p] / package.host_bytes_per_s)
                period_s = max(period_s, windows.out_bytes[p] / package.host_bytes_per_s)
                period_s = max(period_s, cuts.crossing_bytes[j] / package.link_bytes_per_s)
                over = room - package.sram_room[k]
                if over > 0:
                    needed = over + STREAM_SLOTS * windows.largest_weight[p]
                    if package.stream_bytes_per_s == 0.0 or needed > windows.weight_room[p]:
                        continue
                    streamed_s = ALIGNMENT * needed / package.stream_bytes_per_s
                    period_s = max(period_s, streamed_s)
                if period_s < best[k + 1, j]:
                    best[k + 1, j] = period_s
                    came_from[k + 1, j] = i
    return best, came_from
