"""The compiled core of contiguous partitioning: which windows fit, and how to chain them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import (
    entry_njit,
    expanded_njit,
    inlined_njit,
    inner_njit,
    lean_inner_njit,
)
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_passes.families.ring.contiguous.contiguous_windows import (
    Chips,
    CopiedViews,
    Streaming,
    Windows,
)

SLACK_OF_SUMS = 1e-6
"""Relative space for sums of as many units as a graph may have."""

MANY_STARTS = 32
"""Starts from which on passing over them again is avoided."""

# Kernels that are called at one place are inlined before they are typed, as each kernel that numba
# compiles by itself is optimized once more in whatever calls it.


class WindowSums(NamedTuple):
    """Sums of a window's positions, as it grows and shrinks; bytes as whole floats.

    Attributes:
        busy_s: chip seconds of units and clones.
        relay_s: chip seconds of relays of what passes the window by.
        copied_s: chip seconds of copies of views.
        in_s: seconds of the host channel in.
        out_s: seconds of the host channel out.
        held: memory without live tensors and without what crosses the two cuts.
        passing: bytes of live tensors that pass the window by.
        inside: bytes of all that is made and read within.
    """

    busy_s: float
    relay_s: float
    copied_s: float
    in_s: float
    out_s: float
    held: float
    passing: float
    inside: float


NO_SUMS = WindowSums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Of an empty window that nothing passes by."""


class _Starts(NamedTuple):
    """For each cut the earliest start of a window that ends there, and what that amounts to.

    Attributes:
        start: `[n + 1]`; the cut itself where not even one unit fits.
        peak: `[n + 1]`, the peak of live bytes, with what passes the window by. Without it, it is
            an upper bound of what is live in the window alone, as is `WindowSums.inside`.
        sums: `[n + 1, 8]`, `WindowSums` of each.
    """

    start: Longs
    peak: Longs
    sums: Floats


@inlined_njit
def packed(chips: Chips, live_bytes: Any) -> int:
    """Memory for activations whose live bytes peak at `live_bytes`."""
    return int(np.ceil(live_bytes * chips.packing / chips.alignment)) * chips.alignment


@inlined_njit
def _in_time(streaming: Streaming, period_s: float) -> int:
    """Bytes that a window may lack, because weights come from off-package memory in time.

    This holds for windows that hold no stiff weights.
    """
    if streaming.bytes_per_s == 0.0:
        return 0
    in_time = streaming.bytes_per_s * period_s - streaming.buffer_bytes
    return int(max(min(in_time, streaming.limit_bytes), 0.0))


@lean_inner_njit
def _more_copied(views: CopiedViews, j: int, p: int) -> float:
    """Seconds of copies that a window `[j, p)` gets with position p.

    It makes views of memory from before the window, and others leave no more.
    """
    more_s = 0.0
    for e in range(views.by_maker.ptr[p], views.by_maker.ptr[p + 1]):
        v = views.by_maker.entries[e]
        if views.writer[v] < j and p < views.last[v]:
            more_s += views.seconds[v]
    for e in range(views.by_last.ptr[p], views.by_last.ptr[p + 1]):
        v = views.by_last.entries[e]
        if views.writer[v] < j <= views.made[v]:
            more_s -= views.seconds[v]
    return float(more_s)


@lean_inner_njit
def _more_copied_behind(views: CopiedViews, j: int, i: int) -> float:
    """Seconds of copies that a window `[j, i)` gets without position j.

    Views of what it writes are copied from then on, and those that it makes are no more.
    """
    more_s = 0.0
    for e in range(views.by_writer.ptr[j], views.by_writer.ptr[j + 1]):
        v = views.by_writer.entries[e]
        if views.made[v] < i <= views.last[v]:
            more_s += views.seconds[v]
    for e in range(views.by_maker.ptr[j], views.by_maker.ptr[j + 1]):
        v = views.by_maker.entries[e]
        if i <= views.last[v]:
            more_s -= views.seconds[v]
    return float(more_s)


@inlined_njit
def with_next(w: Windows, s: WindowSums, j: int, p: int) -> WindowSums:
    """Sums of a window `[j, p)` with position p added."""
    busy_s, relay_s, in_s, held = s.busy_s + w.work_s[p], s.relay_s, s.in_s, s.held
    held += w.out_held[p]
    items, read = w.items, w.read
    # Items that it has not yet.
    for e in range(items.ptr[p], items.ptr[p + 1]):
        if items.previous[e] < j:
            busy_s += items.busy_s[e]
            held += items.held[e]
            in_s += items.host_in_s[e]
    passing, inside = s.passing, s.inside
    # Tensors that pass no further.
    for e in range(read.ptr[p], read.ptr[p + 1]):
        if read.other[e] < j:
            relay_s -= read.relay_s[e]
            passing -= read.live[e]
        else:
            inside += read.live[e]
    copied_s = s.copied_s + _more_copied(w.views, j, p) if w.views.made.size else 0.0
    return WindowSums(busy_s, relay_s, copied_s, in_s, s.out_s + w.out_s[p], held, passing, inside)


@inlined_njit
def _without_first(w: Windows, s: WindowSums, j: int, i: int) -> WindowSums:
    """Sums of a window `[j, i)` without position j."""
    busy_s, relay_s, in_s, held = s.busy_s - w.work_s[j], s.relay_s, s.in_s, s.held
    held -= w.out_held[j]
    items, made = w.items, w.made
    # Items that nothing else in it wants.
    for e in range(items.ptr[j], items.ptr[j + 1]):
        if items.following[e] >= i:
            busy_s -= items.busy_s[e]
            held -= items.held[e]
            in_s -= items.host_in_s[e]
    passing, inside = s.passing, s.inside
    # Tensors that pass it by now, or are not made within any more.
    for e in range(made.ptr[j], made.ptr[j + 1]):
        if made.other[e] >= i:
            relay_s += made.relay_s[e]
            passing += made.live[e]
        else:
            inside -= made.live[e]
    copied_s = s.copied_s + _more_copied_behind(w.views, j, i) if w.views.made.size else 0.0
    return WindowSums(busy_s, relay_s, copied_s, in_s, s.out_s - w.out_s[j], held, passing, inside)


@inlined_njit
def _may_stream(streaming: Streaming, j: int, i: int, streamed: int) -> int:
    """Bytes that a window `[j, i)` may lack: `streamed`, or none where it has stiff weights."""
    return streamed if streaming.stiff[i] <= streaming.stiff[j] else 0


@expanded_njit
def _latest_starts(w: Windows) -> Longs:
    """`[n + 1]`, for each cut the latest cut from which a window may end there by the rules."""
    n, far = w.work_s.size, w.cuts.far
    latest = np.empty(n + 1, dtype=np.int64)
    j = 0
    for i in range(n + 1):
        if w.chips.strict:
            while j + 1 < i and far[j + 1] <= i:
                j += 1
            latest[i] = j
        else:
            latest[i] = i - 1
    return latest


class _Chip(NamedTuple):
    """Limits of a window.

    Attributes:
        longest_s: seconds of work at normal speed within a period.
        sram_bytes: memory.
        streamed: what it may lack where it has no stiff weights.
    """

    longest_s: float
    sram_bytes: int
    streamed: int


@inlined_njit
def _fits(w: Windows, chip: _Chip, sums: WindowSums, peak: int, j: int, i: int) -> bool:
    """Return whether a window `[j, i)` fits with relays, copies and buffers of cuts."""
    if sums.busy_s + sums.relay_s + sums.copied_s > chip.longest_s:
        return False
    needed = sums.held + w.cuts.arriving[j]
    needed += packed(w.chips, min(peak - sums.passing, sums.inside))
    room = chip.sram_bytes - w.cuts.leaving[i]
    return needed <= room + _may_stream(w.streaming, j, i, chip.streamed)


@inlined_njit
def _is_too_large(
    w: Windows, chip: _Chip, period_s: float, sums: WindowSums, peak: int, j: int, i: int
) -> bool:
    """Return whether a window `[j, i)` exceeds the limits, whatever crosses its cuts.

    Its work, clones, host channels, weights and live tensors only grow with it.
    """
    return (
        sums.busy_s > chip.longest_s
        or sums.in_s > period_s
        or sums.out_s > period_s
        or sums.held + packed(w.chips, min(peak - sums.passing, sums.inside))
        # What is streamed within the period need not fit.
        > chip.sram_bytes + _may_stream(w.streaming, j, i, chip.streamed)
    )


@inlined_njit
def _too_much_passes(w: Windows, chip: _Chip, sums: WindowSums, i: int) -> bool:
    """Return whether no later start of a window to cut i can fit either, for what passes it by.

    The later a window starts, the more passes by, and the unit before the cut is always in it.
    What rounding may amount to is left as space.
    """
    return sums.relay_s + w.work_s[i - 1] > chip.longest_s * (1.0 + SLACK_OF_SUMS)


@inlined_njit
def _least_growth(w: Windows, p: int) -> float:
    """Least by which work, relays and copies of any window to position p grow with it.

    Work only grows; relays fall by those of tensors that pass no further, at most, and copies by
    those of views that leave no more.
    """
    growth = w.work_s[p]
    for e in range(w.views.by_last.ptr[p], w.views.by_last.ptr[p + 1]):
        growth -= w.views.seconds[w.views.by_last.entries[e]]
    for e in range(w.read.ptr[p], w.read.ptr[p + 1]):
        growth -= w.read.relay_s[e]
    return growth


@entry_njit
def _earliest_starts(w: Windows, period_s: float, latest: Longs) -> _Starts:
    """For each cut the earliest start of a window that the largest and fastest chip takes.

    Whatever the chip, no earlier start works, so that no chip has to look again where memory is
    tight and starts have to move far.

    The longest window to each cut that is not too large moves both ends forward only. From there
    on, what does not grow with a window counts as well: relays, copies, buffers for what crosses
    the cuts.

    If many starts were passed over for one cut, because all of them took longer than the period,
    the next cut begins behind them as long as they must. `excess_s` is the least of what they took
    too long, less what passes no further since. It is trusted only above what rounding may amount
    to, and both ways of adding up then decide alike. Each sum has at most one term per position and
    occurrence, so that they differ by far less than `SLACK_OF_SUMS`. Else each cut of a graph with
    a wide fan-out would walk over all units before it.
    """
    n, streamed = w.work_s.size, _in_time(w.streaming, period_s)
    best = _Chip(period_s * w.chips.most_speed, w.chips.most_sram_bytes, streamed)
    starts = _Starts(np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros((n + 1, 8)))
    rounding_s = best.longest_s * SLACK_OF_SUMS
    # Candidates for the peak are `peaks[head:tail]`, whose live bytes fall.
    peaks = np.empty(n, dtype=np.int64)
    head, tail, j, longest = 0, 0, 0, NO_SUMS
    # Where the walk of the cut before ended, and the sums of that window.
    walked, excess_s, sums = 0, -np.inf, NO_SUMS
    for i in range(1, n + 1):
        longest = with_next(w, longest, j, i - 1)
        while tail > head and w.live_bytes[peaks[tail - 1]] <= w.live_bytes[i - 1]:
            tail -= 1
        peaks[tail] = i - 1
        tail += 1
        while j < i and _is_too_large(
            w, best, period_s, longest, int(w.live_bytes[peaks[head]]), j, i
        ):
            longest = _without_first(w, longest, j, i)
            head += int(peaks[head] == j)
            j += 1
        if j == i:
            # Rounding would otherwise pile up over the whole order.
            longest = WindowSums(
                0.0, longest.relay_s, 0.0, 0.0, 0.0, 0.0, longest.passing, longest.inside
            )
        peak = int(w.live_bytes[peaks[head]]) if j < i else 0
        excess_s += _least_growth(w, i - 1)
        if excess_s > rounding_s and walked - j > MANY_STARTS:
            at, sums = walked, with_next(w, sums, walked, i - 1)
        else:
            at, sums, excess_s = j, longest, np.inf
        nothing = False
        while at <= latest[i] and not _fits(w, best, sums, peak, at, i):
            if _too_much_passes(w, best, sums, i):
                nothing = True
                break
            busy_s = sums.busy_s + sums.relay_s + sums.copied_s
            excess_s = min(excess_s, busy_s - best.longest_s)
            sums = _without_first(w, sums, at, i)
            at += 1
        walked = at
        starts.start[i], starts.peak[i] = (at if at <= latest[i] and not nothing else i), peak
        for k in range(8):
            starts.sums[i, k] = sums[k]
    return starts


@expanded_njit
def _least_from(lo: Longs) -> Longs:
    """`[n + 1]`, for each cut the earliest start of windows that end there or later."""
    least = lo.copy()
    for i in range(lo.size - 2, -1, -1):
        least[i] = min(least[i], least[i + 1])
    return least


@expanded_njit
def _first_useful(least: Longs, chips: int) -> Longs:
    """`[chips + 1]`, for each number of chips left a cut before which they can't reach the end."""
    first = np.empty(chips + 1, dtype=np.int64)
    first[0] = least.size - 1
    for left in range(1, chips + 1):
        first[left] = least[first[left - 1]]
    return first


@entry_njit
def window_limits(w: Windows, period_s: float) -> tuple[Longs, Bools]:
    """Limits of every partition along the order whose period is at most `period_s`.

    Returns:
        `[n + 1]`, for each cut the earliest start of a window to it, never falling; and `[n + 1]`,
        whether chips may meet at each cut.
    """
    starts = _earliest_starts(w, period_s, _latest_starts(w)).start
    possible = np.empty(starts.size, np.bool_)
    for i in range(starts.size):
        possible[i] = starts[i] < i and w.cuts.link_s[i] <= period_s
    return _least_from(starts), possible


@inlined_njit
def _next_reached(reached: Ints, lowest: int, furthest: int, following: Longs) -> None:
    """Sets `following[lowest:furthest + 2]`: the cut itself or the next one that chips reach.

    Args:
        reached: `[n + 1]`, below 0 for the cuts that they don't reach.
        lowest: the first that they do.
        furthest: the last one.
        following: `[n + 2]`; n + 1 where there is none.
    """
    following[furthest + 1] = reached.size
    for i in range(furthest, lowest - 1, -1):
        following[i] = i if reached[i] >= 0 else following[i + 1]


@inlined_njit
def _earliest_fitting(
    w: Windows, chip: _Chip, starts: _Starts, i: int, first: int, latest: int, following: Longs
) -> int:
    """The first cut from which a window to cut i fits a chip, of those that chips before reach.

    Args:
        w: the windows.
        chip: the chip.
        starts: where windows may start on the largest and fastest one.
        i: where the window ends.
        first: cut to begin with.
        latest: cut to end with.
        following: as `_next_reached` sets it.

    Returns:
        -1 where none fits.
    """
    at, s, peak = starts.start[i], starts.sums[i], starts.peak[i]
    sums = WindowSums(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
    start = int(following[first])
    while start <= latest:
        while at < start:
            sums = _without_first(w, sums, at, i)
            at += 1
        if _fits(w, chip, sums, peak, start, i):
            return start
        if _too_much_passes(w, chip, sums, i):
            return -1
        start = int(following[start + 1])
    return -1


@entry_njit
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
    n, link_s = w.work_s.size, w.cuts.link_s
    none = np.empty(0, dtype=np.int64)
    if w.chips.host_s > period_s:
        return none
    latest = _latest_starts(w)
    starts = _earliest_starts(w, period_s, latest)
    chips = min(w.chips.sram_bytes.size, n)
    least = _least_from(starts.start)
    useful = _first_useful(least, chips)
    # Rows are filled as chips come to them: mostly, few chips are tried before nothing fits.
    start_of = np.empty((chips + 1, n + 1), dtype=np.int32)
    start_of[0] = -1
    start_of[0, 0] = 0
    following = np.empty(n + 2, dtype=np.int64)
    streamed = _in_time(w.streaming, period_s)
    lowest, furthest = 0, 0
    for k in range(1, chips + 1):
        _next_reached(start_of[k - 1], lowest, furthest, following)
        chip = _Chip(period_s * w.chips.speed[k - 1], w.chips.sram_bytes[k - 1], streamed)
        before, last = lowest, furthest
        lowest, furthest = n + 1, 0
        start_of[k] = -1
        bound_by_pin = 0
        for i in range(before + 1, n + 1):
            if least[i] > last:
                break
            pin = w.pinned[i - 1]
            if pin >= 0 and pin != k - 1:
                bound_by_pin = i
            # No link carries outputs away from the first chip, or from the last of the package.
            carried = i < n or 1 < k <= w.chips.last_chip
            if i < useful[chips - k] or (carried and link_s[i] > period_s):
                continue
            first = min(max(starts.start[i], bound_by_pin, before), last + 1)
            start = _earliest_fitting(w, chip, starts, i, first, latest[i], following)
            if start >= 0:
                start_of[k, i] = start
                lowest, furthest = min(lowest, i), i
        if start_of[k, n] >= 0:
            return _traced(start_of, k)
        if lowest > furthest:
            break
    return none


@inner_njit
def _traced(start_of: Ints, k: int) -> Longs:
    """`[k + 1]`, the cuts of k chips that end at the last cut, by the starts of `chain_windows`."""
    cuts = np.empty(k + 1, dtype=np.int64)
    cuts[k] = start_of.shape[1] - 1
    for layer in range(k, 0, -1):
        cuts[layer - 1] = start_of[layer, cuts[layer]]
    return cuts
