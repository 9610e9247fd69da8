"""The heuristic that rewards are relative to, as in the paper: one walk, cut by cumulative cost."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_passes.families.ring.contiguous.contiguous_kernels import NO_SUMS, packed, with_next
from mcm_passes.families.ring.contiguous.contiguous_windows import (
    Windows,
    chips_from_cuts,
    windows_along,
)
from mcm_passes.mapping.problem.topological_orders import topological_orders


@inner_njit
def _highest_chips(w: Windows) -> Longs:
    """`[n + 1]`, the highest chip that each position may be on, for pins at it or behind it."""
    n = w.work_s.size
    highest = np.empty(n + 1, dtype=np.int64)
    highest[n] = w.chips.sram_bytes.size - 1
    for p in range(n - 1, -1, -1):
        highest[p] = highest[p + 1]
        if w.pinned[p] >= 0:
            highest[p] = min(highest[p], w.pinned[p])
    return highest


@entry_njit
def greedy_cuts(w: Windows) -> tuple[Longs, int]:
    """Cuts of the greedy heuristic: a chip closes once it holds its share of the work that is left.

    It also closes before a unit that would overflow its memory, and stays open where the rules
    forbid a cut.

    Returns:
        `cuts[k + 1]` from 0, and the first position that no chip was left for: n on success.
    """
    n = w.work_s.size
    cuts = np.zeros(w.chips.sram_bytes.size + 1, dtype=np.int64)
    left, speed_left = w.work_s.sum(), w.chips.speed.sum()
    highest = _highest_chips(w)
    chip, begin = 0, 0
    done, peak = 0.0, 0
    sums = NO_SUMS
    for p in range(n):
        grown = with_next(w, sums, begin, p)
        need = grown.held + w.cuts.arriving[begin]
        need += packed(w.chips, min(max(peak, w.live_bytes[p]), grown.inside))
        room = w.chips.sram_bytes[chip] + int(w.streaming.limit_bytes)
        overflow = need + w.cuts.leaving[p + 1] > room
        share = left * w.chips.speed[chip] / speed_left
        forced = w.pinned[p] > chip
        may_cut = p > begin and (not w.chips.strict or w.cuts.far[begin] <= p)
        if (overflow or forced or done >= share) and may_cut and chip + 1 <= highest[p]:
            speed_left -= w.chips.speed[chip]
            chip += 1
            cuts[chip] = p
            begin = p
            left -= done
            done, peak = 0.0, 0
            grown = with_next(w, NO_SUMS, begin, p)
        elif need > room or forced or chip > highest[p]:
            return cuts[: chip + 1], p
        sums = grown
        peak = max(peak, w.live_bytes[p])
        done += w.work_s[p]
    cuts[chip + 1] = n
    return cuts[: chip + 2], n


def greedy_partition(problem: PartitionProblem) -> Ints | None:
    """`[N]`, greedy by topological order and cumulative cost, O(N) (MCM, section 5.1), or None.

    A chip closes when it holds its share of the work that is left, or when the next unit would
    overflow its memory. The paper's heuristic is not spelled out; the second rule is ours.
    """
    order = topological_orders(problem, 1)[0].units
    cuts, stop = greedy_cuts(windows_along(problem, order))
    if stop < order.size and problem.streams:
        # Memory is short, so let chips lack as much as they may stream.
        cuts, stop = greedy_cuts(windows_along(problem, order, stream_share=1.0))
    return chips_from_cuts(problem, order, cuts) if stop == order.size else None
