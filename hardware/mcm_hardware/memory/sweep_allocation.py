"""Addresses for very many buffers in about linear time."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Longs
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.compiled.stable_order import ascending

GAPS_SEEN = 4096
"""Gaps that are looked at for one buffer; keeps hostile lifetimes from taking quadratic time."""


@entry_njit
def sweep_offsets(
    sizes: Longs, first: Longs, last: Longs, by_size: Longs, base: int
) -> tuple[Longs, int]:
    """Offsets in order of time, as an allocator at run time would give them.

    At each step the buffers that ended are free; those that begin, largest first, go to the
    tightest gap among the lowest `GAPS_SEEN`, or above everything. Up to 1.5 times the most live
    bytes on the zoo, where `plan_offsets` reaches them; it is for what that cannot afford.

    Args:
        sizes: `[n]`, as all arguments in `plan_offsets`.
        first: `[n]`.
        last: `[n]`.
        by_size: `[n]`, buffers by descending size.
        base: lowest offset.

    Returns:
        As `plan_offsets`.
    """
    count = len(sizes)
    begins = ascending(by_size, first)
    ends = ascending(by_size, last)
    offsets: Longs = np.empty(count, np.int64)
    for item in range(count):
        offsets[item] = base
    # Gaps below `top`, ascending and apart from each other.
    gap_at: Longs = np.empty(count + 1, np.int64)
    gap_size: Longs = np.empty(count + 1, np.int64)
    gaps, ended = variable(0), 0
    top = high = base
    for item in begins:
        while last[ends[ended]] < first[item]:
            freed = ends[ended]
            ended += 1
            if sizes[freed] > 0:
                at, size = int(offsets[freed]), int(sizes[freed])
                gaps = _free(gap_at, gap_size, gaps, at, size)
        if gaps > 0 and gap_at[gaps - 1] + gap_size[gaps - 1] == top:
            gaps -= 1
            top = int(gap_at[gaps])
        if sizes[item] == 0:
            continue
        best = variable(-1)
        for gap in range(min(gaps, GAPS_SEEN)):
            if gap_size[gap] >= sizes[item] and (best < 0 or gap_size[gap] < gap_size[best]):
                best = gap
        if best < 0:
            offsets[item] = top
            top += int(sizes[item])
            high = max(high, top)
            continue
        offsets[item] = gap_at[best]
        gap_at[best] += sizes[item]
        gap_size[best] -= sizes[item]
        if gap_size[best] == 0:
            gaps = _remove(gap_at, gap_size, gaps, best)
    return offsets, high


@inner_njit
def _free(gap_at: Longs, gap_size: Longs, gaps: int, offset: int, size: int) -> int:
    """Adds a gap, merged with its neighbours; returns how many there are then."""
    low, high = 0, gaps
    while low < high:
        middle = (low + high) // 2
        if gap_at[middle] < offset:
            low = middle + 1
        else:
            high = middle
    touches_above = low < gaps and offset + size == gap_at[low]
    if low > 0 and gap_at[low - 1] + gap_size[low - 1] == offset:
        gap_size[low - 1] += size
        if not touches_above:
            return gaps
        gap_size[low - 1] += gap_size[low]
        return _remove(gap_at, gap_size, gaps, low)
    if not touches_above:
        for at in range(gaps, low, -1):
            gap_at[at], gap_size[at] = gap_at[at - 1], gap_size[at - 1]
        gap_size[low] = 0
        gaps += 1
    gap_at[low] = offset
    gap_size[low] += size
    return gaps


@inner_njit
def _remove(gap_at: Longs, gap_size: Longs, gaps: int, gap: int) -> int:
    """Takes a gap out; returns how many are left."""
    for at in range(gap + 1, gaps):
        gap_at[at - 1], gap_size[at - 1] = gap_at[at], gap_size[at]
    return gaps - 1
