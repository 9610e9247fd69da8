"""Loads, memory and rules of a partition whose totals are kept up to date."""

from __future__ import annotations

import numpy as np
from numba import njit

from mcm_compiler.partition import Floats
from mcm_compiler.ring_routes import TO_HOST
from mcm_passes.mapping.loads.chip_memory import streamed_weights
from mcm_passes.mapping.loads.ring_kernels import HELD, HOST_IN, HOST_OUT, LINK, LIVE
from mcm_passes.strategies.placement_state import LOCAL, WEIGHT, PlacedProblem, PlacementState


@njit(cache=True, nogil=True)
def loads_of_state(p: PlacedProblem, s: PlacementState, loads: Floats) -> float:
    """The period; infinite where a rule is broken or a chip overflows.

    Dependencies and the chips of pinned nodes are taken to be kept.

    Args:
        p: the problem.
        s: the state.
        loads: `[5, C]`, filled with the busy seconds of chips, links, host channels in and out,
            and streams, not of what chips share; not all of it where the period is infinite.
    """
    chips = p.speed.size
    for c in range(s.last[0]):
        if s.size[c] == 0:
            return np.inf
    if p.strict and _detours(s):
        return np.inf
    period = p.host_s
    all_in, all_streamed = 0, 0
    for c in range(chips):
        streamed = 0
        if c <= s.last[0]:
            streamed = _streamed(p, s, c)
            if streamed < 0:
                return np.inf
        loads[0, c] = s.busy_s[c] / p.speed[c]
        loads[1, c] = s.totals[LINK, c] / p.link_bytes_per_s
        loads[2, c] = s.totals[HOST_IN, c] / p.host_bytes_per_s
        loads[3, c] = s.totals[HOST_OUT, c] / p.host_bytes_per_s
        loads[4, c] = streamed * p.alignment / p.stream_bytes_per_s
        for k in range(5):
            period = max(period, loads[k, c])
        all_in += s.totals[HOST_IN, c]
        all_streamed += streamed
    # What leaves for the host is the same wherever it does, and in `host_s`.
    period = max(period, all_in / p.host_root_bytes_per_s)
    return max(period, all_streamed * p.alignment / p.stream_root_bytes_per_s)


@njit(cache=True, nogil=True)
def _streamed(p: PlacedProblem, s: PlacementState, c: int) -> int:
    """Blocks of weights that a chip streams: 0 where all fits, -1 where it overflows."""
    fixed = int(s.totals[HELD, c] + s.totals[WEIGHT, c])
    if c == 0:
        fixed += p.entry_room
    if c == s.last[0]:
        fixed += p.exit_room
    # All that stays on the chip is an upper limit of what is live at once.
    if fixed + int(np.ceil(s.totals[LOCAL, c] * p.packing)) <= p.sram_room[c]:
        return 0
    needed = fixed + int(np.ceil(_peak(p, s, c) * p.packing))
    largest = 0
    for k in range(s.size[c] if p.streams else 0):
        v = s.members[c, k]
        for e in range(p.item_ptr[v], p.item_ptr[v + 1]):
            largest = max(largest, int(p.item_weight[p.items[e]]))
    return streamed_weights(
        needed, int(s.totals[WEIGHT, c]), largest, p.sram_room[c], p.streams, p.stream_slots
    )


@njit(cache=True, nogil=True)
def _peak(p: PlacedProblem, s: PlacementState, c: int) -> int:
    """The most blocks of tensors that stay on a chip and are live at once, in unit order."""
    n = s.chip.size
    ends_at = np.zeros(n, np.int64)
    live, peak = 0, 0
    for v in range(n):
        if s.chip[v] != c:
            continue
        for e in range(p.made_ptr[v], p.made_ptr[v + 1]):
            t = p.made[e]
            last = v
            stays = p.kind[t] & TO_HOST == 0
            for k in range(p.reader_ptr[t], p.reader_ptr[t + 1]):
                stays = stays and s.chip[p.readers[k]] == c
                last = max(last, p.readers[k])
            if stays:
                live += p.amount[t, LIVE]
                ends_at[last] += p.amount[t, LIVE]
        peak = max(peak, live)
        live -= ends_at[v]
    return int(peak)


@njit(cache=True, nogil=True)
def _detours(s: PlacementState) -> bool:
    """Whether some direct dependency between chips has a longer path beside it (MCM, Eq. 4)."""
    chips = s.last[0] + 1
    longest = np.zeros((chips, chips), np.bool_)
    for a in range(chips - 1, -1, -1):
        for b in range(a + 1, chips):
            if s.pairs[a, b] > 0:
                for c in range(b + 1, chips):
                    if s.pairs[b, c] > 0 or longest[b, c]:
                        longest[a, c] = True
        for c in range(a + 1, chips):
            if longest[a, c] and s.pairs[a, c] > 0:
                return True
    return False
