"""Contiguous cuts where routers forward tensors, with memory as the evaluation counts it.

What passes a chip by takes no memory there, and what it receives it holds once for all its units.
The windows of `contiguous_windows` count both from above, as if engines forwarded them. Here each
window is weighed by itself, which takes longer and finds partitions of tight problems.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_passes.families.ring.contiguous.strict_windows import beginnings, costs_from
from mcm_passes.families.ring.loads.crossings import cuts_of
from mcm_passes.families.ring.loads.window_costs import PackingRatio, window_scratch
from mcm_passes.mapping.loads.chip_demands import chip_demands

MOST_SHARES = 4.0
"""Work of the longest window that is weighed, in shares of the whole."""


class RoutedWindows:
    """All windows along one order of a problem that a chip may have.

    Args:
        problem: the problem, on a line of chips that all reach the host, without pins.
        order: `[n]`, the units that are not clonable in a topological order.
    """

    def __init__(self, problem: PartitionProblem, order: Ints) -> None:
        limits, n, speed = problem.limits, order.size, problem.chip_speed
        d = chip_demands(problem.reached(), order, own_buffers=True)
        cuts, scratch = cuts_of(beginnings(n), d.tensors), window_scratch(d)
        packing = PackingRatio(*limits.activation_packing.as_integer_ratio())
        work_s, heaviest_s = float(d.nodes.work_s.sum()), float(d.nodes.work_s.max(initial=0.0))
        most_s = max(MOST_SHARES * work_s / float(speed.sum()), heaviest_s) * float(speed.max())
        room = np.array(limits.sram_bytes, np.int64) // limits.buffer_alignment_bytes
        found = [
            costs_from(d, cuts, scratch, (j, j * n), packing, most_s, int(room.max()), np.inf)
            for j in range(n)
        ]
        lengths = [seconds.shape[1] for seconds, _ in found]
        begin = np.repeat(np.arange(n), lengths)
        end = np.concatenate([j + 1 + np.arange(length) for j, length in enumerate(lengths)])
        by_end = np.lexsort((begin, end))
        self._begin, self._end, self._n = begin[by_end], end[by_end], n
        self._busy_s = np.concatenate([seconds[1] for seconds, _ in found])[by_end]
        amounts = np.concatenate([amounts for _, amounts in found], axis=1)[:, by_end]
        self._host_s, self._room_of = amounts[0] / limits.host_bytes_per_s, amounts[3]
        self._room, self._speed = room, speed

    def cuts_within(self, period_s: float) -> Longs:
        """The cuts of a partition whose windows are within a period, with the fewest chips.

        Channels between chips are not looked at; whoever evaluates the cuts counts them.

        Returns:
            `cuts[k + 1]` from 0 to n, or an empty array where there are none.
        """
        begin, end, n = self._begin, self._end, self._n
        rows, first = np.unique(end, return_index=True)
        reached, starts = np.zeros(n + 1, np.bool_), list[Longs]()
        reached[0] = True
        for room, speed in zip(self._room.tolist(), self._speed.tolist(), strict=True):
            fits = (self._room_of <= room) & (self._busy_s <= period_s * speed)
            fits &= (self._host_s <= period_s) & reached[begin]
            start = np.full(n + 1, n + 1, np.int64)
            start[rows] = np.minimum.reduceat(np.where(fits, begin, n + 1), first)
            starts.append(start)
            reached = start <= n
            if reached[n]:
                found = [n]
                for one in starts[::-1]:
                    found.append(int(one[found[-1]]))
                return np.array(found[::-1], np.int64)
        return np.empty(0, np.int64)
