"""The compiled core of contiguous partitioning: which windows fit, and how to chain them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from mcm_compiler.partition import Bools, Floats, Longs
from mcm_passes.families.ring.contiguous.contiguous_windows import Windows

# Kernels that are called at one place are inlined before they are typed, as each kernel that numba
# compiles by itself is optimized once more in whatever calls it.


@njit(cache=True)
def _packed(packing: float, alignment: int, live_bytes: Any) -> int:
    """Memory for activations whose live bytes peak at `live_bytes`."""
    return int(np.ceil(live_bytes * packing / alignment)) * alignment


@njit(inline="always")
def _in_time(w: Windows, period_s: float) -> int:
    """Bytes that a window may lack, because weights come from off-package memory in time.

    This holds for windows that hold no stiff weights.
    """
    if w.stream_bytes_per_s == 0.0:
        return 0
    in_time = w.stream_bytes_per_s * period_s - w.stream_buffer_bytes
    return int(max(min(in_time, w.stream_limit_bytes), 0.0))


@njit(cache=True)
def _greatest(values: Any) -> Any:
    """The greatest entry; NumPy's `max` takes long to compile."""
    greatest = values[0]
    for k in range(1, values.size):
        greatest = max(greatest, values[k])
    return greatest


@njit(inline="always")
def _longest_windows(
    w: Windows, period_s: float, longest_s: float, most_sram: int, streamed: int
) -> tuple[Longs, Floats, Floats, Longs, Longs, Longs]:
    """For each cut i the earliest cut `lo[i]` from which a window to i may start.

    A window passes here if its work, clones, host channels, weights and live tensors are within
    the limits: all of these only grow with the window, so both ends move forward only. What does
    not grow with it (relays, buffers for what crosses the cuts) is left to `chain_windows`.

    Returns:
        `lo[n + 1]` (`lo[i] == i` where not even one unit fits), and at the window `[lo[i], i)`,
        each `[n + 1]`: chip seconds, relay seconds, memory without live tensors, the peak of
        live bytes without what passes through, and the bytes of all that is made and read within.
        The last two are both upper bounds of what is live in the window alone.
    """
    n = w.work_s.size
    lo = np.zeros(n + 1, dtype=np.int64)
    seconds_at = np.zeros(n + 1)
    relay_at = np.zeros(n + 1)
    memory_at = np.zeros(n + 1, dtype=np.int64)
    live_at = np.zeros(n + 1, dtype=np.int64)
    inside_at = np.zeros(n + 1, dtype=np.int64)
    peaks = np.empty(n, dtype=np.int64)
    peak_head, peak_tail = 0, 0
    seconds, relay, in_s, out_s = 0.0, 0.0, 0.0, 0.0
    memory, passing, inside = 0, 0, 0
    # Of the host's tensors: all pass while the window is empty.
    for e in range(w.made_ptr[0], w.made_ptr[1]):
        relay += w.made_relay_s[e]
    j = 0
    for i in range(1, n + 1):
        p = i - 1
        seconds += w.work_s[p]
        out_s += w.out_s[p]
        memory += w.out_bytes[p]
        for e in range(w.item_ptr[p], w.item_ptr[p + 1]):
            if w.item_previous[e] < j:
                seconds += w.item_s[e]
                memory += w.item_bytes[e]
                in_s += w.item_in_s[e]
        for e in range(w.read_ptr[p], w.read_ptr[p + 1]):
            if w.read_from[e] < j:
                relay -= w.read_relay_s[e]
                passing -= w.read_bytes[e]
            else:
                inside += w.read_bytes[e]
        while peak_tail > peak_head and w.live_bytes[peaks[peak_tail - 1]] <= w.live_bytes[p]:
            peak_tail -= 1
        peaks[peak_tail] = p
        peak_tail += 1
        while j < i and (
            seconds > longest_s
            or in_s > period_s
            or out_s > period_s
            or memory
            + _packed(w.packing, w.alignment, min(w.live_bytes[peaks[peak_head]] - passing, inside))
            # What is streamed within the period need not fit.
            > most_sram + (streamed if w.stiff[i] <= w.stiff[j] else 0)
        ):
            seconds -= w.work_s[j]
            out_s -= w.out_s[j]
            memory -= w.out_bytes[j]
            for e in range(w.item_ptr[j], w.item_ptr[j + 1]):
                if w.item_next[e] >= i:
                    seconds -= w.item_s[e]
                    memory -= w.item_bytes[e]
                    in_s -= w.item_in_s[e]
            for e in range(w.made_ptr[j + 1], w.made_ptr[j + 2]):
                if w.made_last[e] >= i:
                    relay += w.made_relay_s[e]
                    passing += w.made_bytes[e]
                else:
                    inside -= w.made_bytes[e]
            if peaks[peak_head] == j:
                peak_head += 1
            j += 1
        if j == i:
            # Rounding would otherwise pile up over the whole order.
            seconds, in_s, out_s, memory = 0.0, 0.0, 0.0, 0
        lo[i] = j
        seconds_at[i] = seconds
        relay_at[i] = relay
        memory_at[i] = memory
        if j < i:
            live_at[i] = w.live_bytes[peaks[peak_head]] - passing
        inside_at[i] = inside
    return lo, seconds_at, relay_at, memory_at, live_at, inside_at


@njit(inline="always")
def _latest_starts(w: Windows) -> Longs:
    """`[n + 1]`, for each cut the latest cut from which a window may end there by the rules."""
    n = w.work_s.size
    latest = np.empty(n + 1, dtype=np.int64)
    j = 0
    for i in range(n + 1):
        if w.strict:
            while j + 1 < i and w.far[j + 1] <= i:
                j += 1
            latest[i] = j
        else:
            latest[i] = i - 1
    return latest


@njit(inline="always")
def _room(w: Windows, sram_bytes: int, i: int) -> int:
    """Memory of a chip that ends at cut i, without the buffers of what leaves it."""
    leaving = w.leaving_bytes[i] if i < w.work_s.size else w.exit_bytes
    return sram_bytes - leaving


@njit(inline="always")
def _needed(w: Windows, start: Any, memory: int, live: int, inside: int) -> Any:
    """Memory of a window that begins at `start`, with the buffers of what arrives."""
    arriving = w.entry_bytes if start == 0 else w.arriving_bytes[start]
    return memory + arriving + _packed(w.packing, w.alignment, min(live, inside))


@njit(cache=True)
def _without_first(
    w: Windows, at: int, i: int, seconds: float, memory: int, live: int, inside: int
) -> tuple[float, int, int, int]:
    """What a window `[at, i)` comes to without its first position."""
    seconds -= w.work_s[at]
    memory -= w.out_bytes[at]
    for e in range(w.item_ptr[at], w.item_ptr[at + 1]):
        if w.item_next[e] >= i:
            seconds -= w.item_s[e]
            memory -= w.item_bytes[e]
    for e in range(w.made_ptr[at + 1], w.made_ptr[at + 2]):
        if w.made_last[e] >= i:
            seconds += w.made_relay_s[e]
            live -= w.made_bytes[e]
        else:
            inside -= w.made_bytes[e]
    return seconds, memory, live, inside


@njit(cache=True)
def _earliest_starts(
    w: Windows, period_s: float, latest: Longs
) -> tuple[Longs, Floats, Longs, Longs, Longs]:
    """For each cut the earliest start of a window that the largest and fastest chip takes.

    Whatever the chip, no earlier start works, so that no chip has to look again where memory is
    tight and starts have to move far.

    Returns:
        The starts `[n + 1]`, `i` where there is none, and what the window from there comes to:
        seconds with relays, memory without live tensors, and the two bounds of these.
    """
    streamed = _in_time(w, period_s)
    longest_s = period_s * _greatest(w.speed)
    most_sram = _greatest(w.sram_bytes)
    lo, seconds_at, relay_at, memory_at, live_at, inside_at = _longest_windows(
        w, period_s, longest_s, most_sram, streamed
    )
    for i in range(seconds_at.size):
        seconds_at[i] += relay_at[i]
    for i in range(1, w.work_s.size + 1):
        room = _room(w, most_sram, i)
        at = lo[i]
        seconds, memory = seconds_at[i], memory_at[i]
        live, inside = live_at[i], inside_at[i]
        while at <= latest[i] and (
            seconds > longest_s
            or _needed(w, at, memory, live, inside)
            > room + (streamed if w.stiff[i] <= w.stiff[at] else 0)
        ):
            seconds, memory, live, inside = _without_first(w, at, i, seconds, memory, live, inside)
            at += 1
        lo[i] = at if at <= latest[i] else i
        seconds_at[i], memory_at[i] = seconds, memory
        live_at[i], inside_at[i] = live, inside
    return lo, seconds_at, memory_at, live_at, inside_at


@njit(inline="always")
def _least_from(lo: Longs) -> Longs:
    """`[n + 1]`, for each cut the earliest start of windows that end there or later."""
    least = lo.copy()
    for i in range(lo.size - 2, -1, -1):
        least[i] = min(least[i], least[i + 1])
    return least


@njit(inline="always")
def _first_useful(least: Longs, chips: int) -> Longs:
    """`[chips + 1]`, for each number of chips left a cut before which they can't reach the end."""
    first = np.empty(chips + 1, dtype=np.int64)
    first[0] = least.size - 1
    for left in range(1, chips + 1):
        first[left] = least[first[left - 1]]
    return first


@njit(cache=True)
def window_limits(w: Windows, period_s: float) -> tuple[Longs, Bools]:
    """What every partition along the order keeps whose period is at most `period_s`.

    Returns:
        `[n + 1]`, for each cut the earliest start of a window to it, never falling; and `[n + 1]`,
        whether chips may meet at each cut.
    """
    lo = _earliest_starts(w, period_s, _latest_starts(w))[0]
    possible = np.empty(lo.size, np.bool_)
    for i in range(lo.size):
        possible[i] = lo[i] < i and w.link_s[i] <= period_s
    return _least_from(lo), possible


@njit(cache=True)
def chain_windows(w: Windows, period_s: float) -> Longs:
    """The cuts of a partition whose every window fits into `period_s`, with the fewest chips.

    `start_of[k]` holds, for each cut that k chips can end at, the earliest start that works for
    the last of them. Cuts that the chips before can't reach, or the chips left can't lead to the
    end, are passed over: close to the least period few are left of each chip. Under the strict
    rule a window from cut j must contain all readers of what crosses j, so that every dependency
    spans at most one chip.

    Returns:
        `cuts[k + 1]` from 0 to n, or an empty array where nothing fits.
    """
    n = w.work_s.size
    none = np.empty(0, dtype=np.int64)
    if w.host_s > period_s:
        return none
    latest = _latest_starts(w)
    streamed = _in_time(w, period_s)
    lo, seconds_at, memory_at, live_at, inside_at = _earliest_starts(w, period_s, latest)
    chips = min(w.sram_bytes.size, n)
    least = _least_from(lo)
    useful = _first_useful(least, chips)
    start_of = np.full((chips + 1, n + 1), -1, dtype=np.int32)
    start_of[0, 0] = 0
    # The cut itself or the next one that the chips before reach; n + 1 where there is none.
    following = np.empty(n + 2, dtype=np.int64)
    lowest, furthest = 0, 0
    for k in range(1, chips + 1):
        following[furthest + 1] = n + 1
        for i in range(furthest, lowest - 1, -1):
            following[i] = i if start_of[k - 1, i] >= 0 else following[i + 1]
        before, last = lowest, furthest
        lowest, furthest = n + 1, 0
        bound_by_pin = 0
        for i in range(before + 1, n + 1):
            if least[i] > last:
                break
            pin = w.pinned[i - 1]
            if pin >= 0 and pin != k - 1:
                bound_by_pin = i
            if i < useful[chips - k] or (i < n and w.link_s[i] > period_s):
                continue
            room = _room(w, w.sram_bytes[k - 1], i)
            longest_s = period_s * w.speed[k - 1]
            at = lo[i]
            seconds, memory = seconds_at[i], memory_at[i]
            live, inside = live_at[i], inside_at[i]
            start = following[min(max(at, bound_by_pin, before), last + 1)]
            while start <= latest[i]:
                while at < start:
                    seconds, memory, live, inside = _without_first(
                        w, at, i, seconds, memory, live, inside
                    )
                    at += 1
                most = room + (streamed if w.stiff[i] <= w.stiff[start] else 0)
                if seconds <= longest_s and _needed(w, start, memory, live, inside) <= most:
                    start_of[k, i] = start
                    lowest, furthest = min(lowest, i), i
                    break
                start = following[start + 1]
        if start_of[k, n] >= 0:
            cuts = np.empty(k + 1, dtype=np.int64)
            cuts[k] = n
            for layer in range(k, 0, -1):
                cuts[layer - 1] = start_of[layer, cuts[layer]]
            return cuts
        if lowest > furthest:
            break
    return none


@njit(cache=True)
def greedy_cuts(w: Windows) -> tuple[Longs, int]:
    """Cuts of the greedy heuristic: a chip closes once it holds its share of the work that is left.

    It also closes before a unit that would overflow its memory, and stays open where the rules
    forbid a cut.

    Returns:
        `cuts[k + 1]` from 0, and the first position that no chip was left for: n on success.
    """
    n = w.work_s.size
    chips = w.sram_bytes.size
    cuts = np.zeros(chips + 1, dtype=np.int64)
    left = w.work_s.sum()
    speed_left = w.speed.sum()
    highest = np.empty(n + 1, dtype=np.int64)
    highest[n] = chips - 1
    for p in range(n - 1, -1, -1):
        highest[p] = highest[p + 1]
        if w.pinned[p] >= 0:
            highest[p] = min(highest[p], w.pinned[p])
    chip, begin = 0, 0
    done, memory, peak, inside = 0.0, 0, 0, 0
    for p in range(n):
        grown = memory + w.out_bytes[p]
        for e in range(w.item_ptr[p], w.item_ptr[p + 1]):
            if w.item_previous[e] < begin:
                grown += w.item_bytes[e]
        for e in range(w.read_ptr[p], w.read_ptr[p + 1]):
            if w.read_from[e] >= begin:
                inside += w.read_bytes[e]
        need = grown + _packed(w.packing, w.alignment, min(max(peak, w.live_bytes[p]), inside))
        need += w.entry_bytes if begin == 0 else w.arriving_bytes[begin]
        leaving = w.leaving_bytes[p + 1] if p + 1 < n else w.exit_bytes
        room = w.sram_bytes[chip] + int(w.stream_limit_bytes)
        overflow = need + leaving > room
        share = left * w.speed[chip] / speed_left
        forced = w.pinned[p] > chip
        may_cut = p > begin and (not w.strict or w.far[begin] <= p)
        if (overflow or forced or done >= share) and may_cut and chip + 1 <= highest[p]:
            speed_left -= w.speed[chip]
            chip += 1
            cuts[chip] = p
            begin = p
            left -= done
            done, memory, peak, inside = 0.0, 0, 0, 0
            grown = w.out_bytes[p]
            for e in range(w.item_ptr[p], w.item_ptr[p + 1]):
                grown += w.item_bytes[e]
        elif need > room or forced or chip > highest[p]:
            return cuts[: chip + 1], p
        memory = grown
        peak = max(peak, w.live_bytes[p])
        done += w.work_s[p]
    cuts[chip + 1] = n
    return cuts[: chip + 2], n
