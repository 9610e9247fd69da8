"""Addresses for buffers with lifetimes: the dynamic storage allocation problem.

No plan ends below the most bytes that live at once, and finding the lowest plan is NP-hard (Garey
and Johnson 1979, problem SR2). Three greedy orders are tried, then a short local search from the
best of them; whatever meets the bound ends it. Work is limited by a count of steps, so that the
answer is the same on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit, inner_njit
from mcm_compiler.arrays.types import Longs
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.compiled.stable_order import ascending, negated, numbered
from mcm_hardware.memory.low_memory_order import max_live_bytes

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


MAX_STEPS = 40_000_000
"""Buffers looked at by the greedy orders, within about a second. Most chips need hundreds."""

REPAIRS = 64
"""Most tries of the local search."""

REPAIR_STEPS = 1_000_000
"""Buffers looked at by the local search, within about 20 ms."""

CLOSE_ENOUGH = 100
"""The local search ends within one part in this many of the bound."""


class _Placed(NamedTuple):
    """The buffers placed so far, in a tree over all n by ascending `first`.

    Attributes:
        latest: `[2 * leaves]`, the latest `last` of those placed below each node, or -1; the
            children of node i are 2 i and 2 i + 1.
        by_first: `[n]`, the buffer at each leaf.
        first: `[n]`, step from which each buffer lives.
        alive: `[n]`, space for buffers that are found.
        stack: nodes still to visit.
    """

    latest: Longs
    by_first: Longs
    first: Longs
    alive: Longs
    stack: Longs


@entry_njit
def plan_offsets(sizes: Longs, first: Longs, last: Longs, base: int) -> tuple[Longs, int]:
    """Offsets such that no two buffers that live at once overlap.

    Orders after Pisarchyk and Lee 2020, *Efficient Memory Management for Deep Neural Net
    Inference*, section 5: by size, then by breadth, that is, first what lives in the step with the
    most live bytes. Then by size times lifetime. A buffer goes to the lowest gap that holds it
    between those placed before; the paper takes the tightest, which came out worse on the zoo and
    on random lifetimes. The local search moves the buffer that ends highest half-way to the front
    of the order and places all again (ours, in the manner of the hill climbing in TVM's unified
    static memory planner). Where even the first order takes too many steps, `sweep_offsets` places
    everything.

    Args:
        sizes: `[n]`, bytes, each a multiple of the alignment; a buffer of none gets `base`.
        first: `[n]`, step from whose start a buffer is taken, from 0.
        last: `[n]`, step after whose end it is free; `last >= first`.
        base: lowest offset, aligned.

    Where all buffers live at once, as the outputs of a wide fan-out do, the first order stacks them
    and meets the bound; that is found without placing them, which would take quadratic time.

    Returns:
        `[n]` offsets, and the end of the highest buffer, or `base` where there is none.
    """
    bound = base + max_live_bytes(sizes, first, last)
    enough = bound + (bound - base) // CLOSE_ENOUGH
    by_first = ascending(numbered(len(sizes)), first)
    by_size = ascending(by_first, negated(sizes))
    if _share_a_step(first, last):
        if steps_of_a_stack(by_size, sizes, by_first) > MAX_STEPS:
            return sweep_offsets(sizes, first, last, by_size, base)
        return _stacked(by_size, sizes, base), bound
    steps = MAX_STEPS
    order = best = by_size
    offsets = found = np.empty(0, np.int64)
    high = top = variable(-1)
    for attempt in range(3 + REPAIRS):
        if attempt == 1:
            order = ascending(by_size, _fullest_step(sizes, first, last))
        elif attempt == 2:
            order = ascending(by_first, _negated_areas(sizes, first, last))
        elif attempt > 2:
            if high <= enough:
                break
            if attempt == 3:
                order, found, top = best, offsets, high
                steps = min(steps, REPAIR_STEPS)
            order = _highest_sooner(order, found, sizes, top)
        found, top, steps = _place(order, sizes, first, last, by_first, base, steps)
        if top < 0:
            break
        if high < 0 or top < high:
            offsets, high, best = found, top, order
        if high == bound:
            break
    if high < 0:
        return sweep_offsets(sizes, first, last, by_size, base)
    return offsets, high


@inner_njit
def _share_a_step(first: Longs, last: Longs) -> bool:
    """Return whether there are buffers, and a step in which all of them live."""
    if len(first) == 0:
        return False
    latest_first, earliest_last = first[0], last[0]
    for item in range(len(first)):
        latest_first = max(latest_first, first[item])
        earliest_last = min(earliest_last, last[item])
    return bool(latest_first <= earliest_last)


@inner_njit
def _stacked(order: Longs, sizes: Longs, base: int) -> Longs:
    """`[n]`, offsets of buffers one above the other, as `_place` puts those that all live at once.

    Buffers of no bytes lie at `base`.
    """
    offsets: Longs = np.empty(len(sizes), np.int64)
    top = base
    for item in order:
        offsets[item] = top if sizes[item] > 0 else base
        top += int(sizes[item])
    return offsets


@entry_njit
def steps_of_a_stack(order: Longs, sizes: Longs, by_first: Longs) -> int:
    """Steps that `_place` would take where all buffers live at once, in linear time.

    It would visit the root of its tree, and both children of each node below which a buffer is
    placed; the right one only where there are buffers below.
    """
    count = len(order)
    leaves = _power_of_two(count)
    leaf: Longs = np.empty(count, np.int64)
    for place in range(count):
        leaf[by_first[place]] = leaves + place
    occupied = np.zeros(2 * leaves, np.bool_)
    steps, visited = 0, 1
    for item in order:
        if sizes[item] == 0:
            continue
        steps += visited
        node = leaf[item]
        while node > 0 and not occupied[node]:
            occupied[node] = True
            if node < leaves:
                visited += 1 if _leftmost(2 * node + 1, leaves) >= count else 2
            node //= 2
    return steps


@inner_njit
def _place(
    order: Longs, sizes: Longs, first: Longs, last: Longs, by_first: Longs, base: int, steps: int
) -> tuple[Longs, int, int]:
    """Places buffers in `order`, each into the lowest gap.

    Which of the placed ones live at the same time is found with a tree over all buffers by
    ascending `first`, whose nodes know the latest `last` of those placed below them.

    Returns:
        Offsets, the end of the highest buffer or -1 where `steps` did not suffice, and the steps
        left.
    """
    count = len(order)
    leaves = _power_of_two(count)
    placed = _Placed(
        np.full(2 * leaves, -1, np.int64),
        by_first,
        first,
        np.empty(count, np.int64),
        np.empty(64, np.int64),
    )
    leaf: Longs = np.empty(count, np.int64)
    offsets: Longs = np.empty(count, np.int64)
    for place in range(count):
        leaf[by_first[place]] = leaves + place
        offsets[place] = base
    high = base
    for item in order:
        if sizes[item] == 0:
            continue
        found, steps = _alive_with(placed, int(first[item]), int(last[item]), steps)
        if steps < 0:
            return offsets, -1, steps
        end = base
        for other in ascending(placed.alive[:found], offsets):
            if offsets[other] - end >= sizes[item]:
                break
            end = max(end, int(offsets[other] + sizes[other]))
        offsets[item] = end
        high = max(high, end + int(sizes[item]))
        node = leaf[item]
        while node > 0 and placed.latest[node] < last[item]:
            placed.latest[node] = last[item]
            node //= 2
    return offsets, high, steps


@inner_njit
def _alive_with(placed: _Placed, born: int, dies: int, steps: int) -> tuple[int, int]:
    """Fills `placed.alive` with the placed buffers that live between `born` and `dies`.

    Returns:
        How many there are, and the steps left.
    """
    latest, by_first, stack = placed.latest, placed.by_first, placed.stack
    leaves, count = len(latest) // 2, len(by_first)
    found = 0
    stack[0], depth = 1, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        steps -= 1
        if latest[node] < born:
            continue
        if node >= leaves:
            placed.alive[found] = by_first[node - leaves]
            found += 1
            continue
        leftmost = _leftmost(2 * node + 1, leaves)
        if leftmost < count and placed.first[by_first[leftmost]] <= dies:
            stack[depth] = 2 * node + 1
            depth += 1
        stack[depth] = 2 * node
        depth += 1
    return found, steps


@expanded_njit
def _leftmost(node: int, leaves: int) -> int:
    """The place of the leftmost leaf below a node of a tree, the root of which is node 1."""
    while node < leaves:
        node *= 2
    return node - leaves


@inner_njit
def _power_of_two(count: int) -> int:
    """The least that is not below `count`."""
    power = 1
    while power < count:
        power *= 2
    return power


@inner_njit
def _fullest_step(sizes: Longs, first: Longs, last: Longs) -> Longs:
    """For each buffer, the rank of the fullest step that it lives in; the fullest has rank 0."""
    count = len(sizes)
    num_steps = variable(0)
    for item in range(count):
        num_steps = max(num_steps, int(last[item]) + 1)
    live: Longs = np.zeros(num_steps + 1, np.int64)
    for item in range(count):
        live[first[item]] += sizes[item]
        live[last[item] + 1] -= sizes[item]
    for step in range(num_steps):
        live[step + 1] += live[step]
    leaves = _power_of_two(num_steps)
    # A tree of minima over the ranks of the steps.
    lowest: Longs = np.empty(2 * leaves, np.int64)
    for node in range(2 * leaves):
        lowest[node] = num_steps
    fullest = ascending(numbered(num_steps), negated(live))
    for rank in range(num_steps):
        lowest[leaves + fullest[rank]] = rank
    for node in range(leaves - 1, 0, -1):
        lowest[node] = min(lowest[2 * node], lowest[2 * node + 1])
    ranks: Longs = np.empty(count, np.int64)
    for item in range(count):
        low, high = leaves + first[item], leaves + last[item] + 1
        rank = num_steps
        while low < high:
            if low % 2 == 1:
                rank = min(rank, lowest[low])
                low += 1
            if high % 2 == 1:
                high -= 1
                rank = min(rank, lowest[high])
            low //= 2
            high //= 2
        ranks[item] = rank
    return ranks


@inner_njit
def _negated_areas(sizes: Longs, first: Longs, last: Longs) -> Longs:
    """Minus size times lifetime."""
    areas = np.empty(len(sizes), np.int64)
    for item in range(len(sizes)):
        areas[item] = -sizes[item] * (last[item] - first[item] + 1)
    return areas


@inner_njit
def _highest_sooner(order: Longs, offsets: Longs, sizes: Longs, top: int) -> Longs:
    """`order` with the last of those that end at `top` moved half-way to the front."""
    place = len(order) - 1
    while offsets[order[place]] + sizes[order[place]] != top or sizes[order[place]] == 0:
        place -= 1
    moved = order.copy()
    sooner = place // 2
    for at in range(place, sooner, -1):
        moved[at] = moved[at - 1]
    moved[sooner] = order[place]
    return moved
