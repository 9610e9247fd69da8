"""What a partial pipeline could become: the rest filled in several ways, the shortest kept.

A feature of the pipeline policy, which still decides. Balanced stages alone mislead where servers
are joined in one stage and the others become small: the balance says nothing of gradients that are
reduced over the network, nor that a stage on a single device is best left with next to no work,
so that micro-batches are through it at once. So all device cuts of the rest are tried, and such
stages with a single part, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, quotient_njit
from mcm_models.pipelines.kernels import Ints, ideal_place
from mcm_models.pipelines.problem import PipelineTables

REFINE = 3
"""How far part cuts of the rest are moved from where work is balanced."""

ALL_PLACES = 48
"""Devices up to which every device cut is tried; of more, those near starts of servers."""

_BINS = 256
"""Of the index from shares of the work to parts."""


SoFar = tuple[float, float, float, float, float, float]
"""Sums and maxima of the slots that a pipeline begins with: seconds, seconds backward, ending,
longest slot, longest forward, longest backward."""


class AheadTables(NamedTuple):
    """The numbers of `PipelineTables` that lengths hang on, those of one place side by side.

    Three arrays instead of twelve: numba counts the references of each in every call.

    Attributes:
        part: `[n + 1, 4]`, prefix sums of seconds forward, of seconds both ways and of bytes of
            weights, and bytes at the cut.
        span: `[D + 1, D + 1, 6]`, of devices a to b - 1: speed, its inverse, servers, seconds per
            byte of the share of the busiest, seconds per byte and start of a reduction.
        number: seconds per byte and start of a transfer inside a server, start of one between
            servers, 1 where there are backward passes, micro-batches less one, 1 for GPipe.
        index: `[257]`, the first prefix sum of work that reaches each 256th of the whole.
        worth: `[D + 1]`, device cuts that are tried; the next one always is.
    """

    part: Any
    span: Any
    number: Any
    index: Any
    worth: Any


def ahead_tables(t: PipelineTables) -> AheadTables:
    """The same numbers, rearranged once per problem."""
    return AheadTables(*_rearranged(t))


@quotient_njit
def _rearranged(
    t: PipelineTables,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], Ints, NDArray[np.bool_]]:
    size, places = len(t.forward), t.speed.shape[0]
    part, span = np.empty((size, 4)), np.empty((places, places, 6))
    for j in range(size):
        part[j, 0] = t.forward[j]
        part[j, 1] = t.forward[j] + t.backward[j]
        part[j, 2] = t.weights[j]
        part[j, 3] = t.cut[j]
    for a in range(places):
        for b in range(places):
            span[a, b, 0] = t.speed[a, b]
            span[a, b, 1] = 1.0 / t.speed[a, b]
            span[a, b, 2] = t.servers[a, b]
            span[a, b, 3] = t.busiest[a, b] * t.network.inter
            span[a, b, 4] = t.reduce[a, b]
            span[a, b, 5] = t.reduce_start[a, b]
    number = np.array(
        [
            t.network.intra,
            t.network.intra_latency,
            t.network.inter_latency,
            t.both_ways,
            t.micro_batches - 1.0,
            t.gpipe,
        ]
    )
    index = np.empty(_BINS + 1, np.int64)
    j = 0
    for k in range(_BINS + 1):
        while j < size - 1 and part[j, 1] < part[size - 1, 1] * k / _BINS:
            j += 1
        index[k] = j
    return part, span, number, index, _worth(t)


@inner_njit
def _worth(t: PipelineTables) -> NDArray[np.bool_]:
    """Device cuts worth trying: all, or at, beside and between the starts of servers."""
    devices = t.speed.shape[0] - 1
    worth = np.full(devices + 1, devices <= ALL_PLACES)
    worth[1] = worth[devices - 1] = True
    start = 0
    for b in range(1, devices + 1):
        if b == devices or t.servers[b - 1, b + 1] == 2.0:
            worth[b - 1 : b + 2] = True
            worth[(start + b) // 2] = True
            start = b
    return worth


@inlined_njit
def with_stage(q: AheadTables, so_far: SoFar, i: int, j: int, a: int, b: int) -> SoFar:
    """`so_far` and a stage of parts i to j - 1 on devices a to b - 1."""
    total, drained, ending, most, most_forward, most_backward = so_far
    first, last, span = q.part[i], q.part[j], q.span[a, b]
    ahead = (last[0] - first[0]) * span[1]
    slot = (last[1] - first[1]) * span[1]
    reduced = last[2] - first[2]
    if reduced > 0.0:
        ending = max(ending, reduced * span[4] + span[5] - drained)
    return (
        total + slot,
        drained + (slot - ahead),
        ending,
        max(most, slot),
        max(most_forward, ahead),
        max(most_backward, slot - ahead),
    )


@inlined_njit
def with_transfer(q: AheadTables, so_far: SoFar, j: int, a: int, b: int, c: int) -> SoFar:
    """`so_far` and the transfer over cut j, from devices a to b - 1 to devices b to c - 1."""
    total, drained, ending, most, most_forward, most_backward = so_far
    span, number = q.span, q.number
    if span[a, c, 2] == 1.0:
        ahead = q.part[j, 3] * number[0] / min(b - a, c - b) + number[1]
    else:
        ahead = q.part[j, 3] * max(span[a, b, 3], span[b, c, 3]) + number[2]
    back = ahead * number[3]
    return (
        total + ahead + back,
        drained + back,
        ending,
        max(most, ahead + back),
        max(most_forward, ahead),
        max(most_backward, back),
    )


@inlined_njit
def _length(q: AheadTables, so_far: SoFar) -> float:
    """Seconds of an iteration of a whole pipeline."""
    most = so_far[4] + so_far[5] if q.number[5] > 0.0 else so_far[3]
    return so_far[0] + q.number[4] * most + so_far[2]


@inlined_njit
def least_s(q: AheadTables, so_far: SoFar, j: int, b: int) -> float:
    """At most the length of any pipeline that begins so: the rest is perfectly balanced."""
    rest = (q.part[len(q.part) - 1, 1] - q.part[j, 1]) * q.span[b, q.span.shape[0] - 1, 1]
    most = so_far[4] + so_far[5] if q.number[5] > 0.0 else max(so_far[3], rest)
    return so_far[0] + rest + q.number[4] * most + so_far[2]


@inlined_njit
def up_to(q: AheadTables, parts: Ints, places: Ints, stage: int) -> SoFar:
    """Sums and maxima of the stages before `stage`, with the transfer into it."""
    so_far = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for k in range(stage):
        i, j, a, b = parts[k], parts[k + 1], places[k], places[k + 1]
        so_far = with_stage(q, so_far, i, j, a, b)
        so_far = with_transfer(q, so_far, j, a, b, places[k + 2])
    return so_far


@entry_njit
def quick_length_s(q: AheadTables, parts: Ints, places: Ints) -> float:
    """As `kernels.unchecked_length_s`, many times as fast; a test holds both to the same."""
    last = len(parts) - 2
    so_far = up_to(q, parts, places, last)
    so_far = with_stage(q, so_far, parts[last], parts[last + 1], places[last], places[last + 1])
    return _length(q, so_far)


@quotient_njit
def quick_part(q: AheadTables, i: int, a: int, b: int, left: int) -> int:
    """As `balanced.ideal_part`, faster."""
    part, size = q.part, len(q.part) - 1
    done, whole = part[i, 1], part[size, 1]
    goal = done + (whole - done) * q.span[a, b, 0] * q.span[a, q.span.shape[0] - 1, 1]
    high = size - left + 1
    # The bin may be one too far where the quotient is rounded up.
    low = q.index[max(min(int(goal / whole * _BINS), _BINS) - 1, 0)]
    low = min(max(low, i + 1), high)
    while low < high and part[low, 1] < goal:
        low += 1
    if low - 1 > i and goal - part[low - 1, 1] < part[low, 1] - goal:
        return low - 1
    return low


@inlined_njit
def _thin_part(q: AheadTables, balanced: int, i: int, a: int, b: int, left: int) -> int:
    """Where a stage ends instead of at `balanced` so that it, or the last one, has one part.

    That is `balanced` if neither is on a single device.
    """
    thin = balanced
    if b - a == 1:
        thin = i + 1
    elif left == 2 and q.span.shape[0] - 1 - b == 1:
        thin = len(q.part) - 2
    return thin


@inner_njit
def balance_parts(q: AheadTables, parts: Ints, places: Ints, stage: int) -> None:
    """Part cuts from the end of `stage` on, for device cuts that are all known."""
    stages = len(parts) - 1
    for k in range(stage, stages - 1):
        parts[k + 1] = quick_part(q, parts[k], places[k], places[k + 1], stages - k)


@entry_njit
def part_rest(q: AheadTables, parts: Ints, places: Ints, stage: int) -> float:
    """Part cuts from the end of `stage` on, for device cuts that are all known; the length.

    Each is balanced or thin, whatever is shortest together; behind three of them, balanced.
    """
    stages = len(parts) - 1
    best, kept = np.inf, parts.copy()
    for choice in range(1 << max(min(stages - 1 - stage, 3), 0)):
        new = True
        for k in range(stage, stages - 1):
            i, a, b, left = parts[k], places[k], places[k + 1], stages - k
            balanced = quick_part(q, i, a, b, left)
            parts[k + 1] = balanced
            if choice >> (k - stage) & 1:
                parts[k + 1] = _thin_part(q, balanced, i, a, b, left)
                if parts[k + 1] == balanced:
                    new = False
                    break
        if new:
            length = quick_length_s(q, parts, places)
            if length < best:
                best = length
                kept[:] = parts
    parts[:] = kept
    return best


@quotient_njit
def place_rest(q: AheadTables, parts: Ints, places: Ints, stage: int, first: int) -> float:
    """Sets the device cuts behind `stage`, and part cuts from number `first`; the length.

    The first two device cuts are tried together; those behind them are even shares.

    Args:
        q: the tables.
        parts: `[S + 1]`, known before number `first`.
        places: `[S + 1]`, known up to number `stage + 1`.
        stage: the last one whose devices are known.
        first: `stage + 1` or `stage + 2`.
    """
    stages = len(parts) - 1
    size, devices = parts[stages], places[stages]
    free = stages - stage - 2
    if free <= 0:
        return part_rest(q, parts, places, first - 1)
    i, a, b = parts[stage], places[stage], places[stage + 1]
    best = np.inf
    best_parts, best_places = parts.copy(), places.copy()
    start = up_to(q, parts, places, stage)
    j = parts[stage + 1]
    thin = j
    if first == stage + 1:
        j = quick_part(q, i, a, b, stages - stage)
        thin = _thin_part(q, j, i, a, b, stages - stage)
    while True:
        parts[stage + 1] = j
        before = with_stage(q, start, i, j, a, b)
        for one in range(b + 1, devices - free + 1):
            if one > b + 1 and not q.worth[one]:
                continue
            places[stage + 2] = one
            sent = with_transfer(q, before, j, a, b, one)
            j1 = quick_part(q, j, b, one, free + 1)
            thin1 = _thin_part(q, j1, j, b, one, free + 1)
            while True:
                parts[stage + 2] = j1
                so_far = with_stage(q, sent, j, j1, b, one)
                if free == 1:
                    so_far = with_transfer(q, so_far, j1, b, one, devices)
                    length = _length(q, with_stage(q, so_far, j1, size, one, devices))
                    if length < best:
                        best = length
                        best_parts[:], best_places[:] = parts, places
                elif least_s(q, so_far, j1, one) < best:
                    best = _place_second(
                        q, parts, places, stage, so_far, best, best_parts, best_places
                    )
                if j1 == thin1:
                    break
                j1 = thin1
        if j == thin:
            break
        j = thin
    parts[:], places[:] = best_parts, best_places
    return best


@inner_njit
def _place_second(
    q: AheadTables,
    parts: Ints,
    places: Ints,
    stage: int,
    so_far: SoFar,
    best: float,
    best_parts: Ints,
    best_places: Ints,
) -> float:
    """Tries the second device cut behind `stage`, with the rest behind it; the least length.

    Args:
        q: the tables.
        parts: `[S + 1]`, known up to number `stage + 2`.
        places: `[S + 1]`, known up to number `stage + 2`.
        stage: as in `place_rest`.
        so_far: of the stages up to number `stage + 1`, this one's transfer aside.
        best: the least length of those tried before.
        best_parts: `[S + 1]`, the cuts that reach it, kept up to date.
        best_places: `[S + 1]`, likewise.
    """
    stages = len(parts) - 1
    size, devices = parts[stages], places[stages]
    free = stages - stage - 2
    j1, b, one = parts[stage + 2], places[stage + 1], places[stage + 2]
    for two in range(one + 1, devices - free + 2):
        if two > one + 1 and not q.worth[two]:
            continue
        sent = with_transfer(q, so_far, j1, b, one, two)
        j2 = quick_part(q, j1, one, two, free)
        thin2 = _thin_part(q, j2, j1, one, two, free)
        while True:
            parts[stage + 3], places[stage + 3] = j2, two
            if free == 2:
                last = with_stage(q, sent, j1, j2, one, two)
                last = with_transfer(q, last, j2, one, two, devices)
                length = _length(q, with_stage(q, last, j2, size, two, devices))
            else:
                for later in range(stage + 4, stages):
                    left = stages - later + 1
                    places[later] = ideal_place(q.span[:, :, 2], places[later - 1], left)
                balance_parts(q, parts, places, stage + 3)
                length = quick_length_s(q, parts, places)
            if length < best:
                best = length
                best_parts[:], best_places[:] = parts, places
            if j2 == thin2:
                break
            j2 = thin2
    return best


@entry_njit
def places_of_rest(
    q: AheadTables, parts: Ints, places: Ints, stage: int, middle: int, reach: int
) -> Ints:
    """Device cuts that suit the rest if the parts of `stage` end early, in the middle or late.

    Shared by all candidates for where they end.

    Args:
        q: the tables.
        parts: `[S + 1]`, known up to number `stage`.
        places: `[S + 1]`, known up to number `stage + 1`.
        stage: the stage that is decided about.
        middle: position of the middle candidate.
        reach: largest offset of a candidate.

    Returns:
        `[3, S + 1]`, or one row where no device cut is left.
    """
    stages = len(parts) - 1
    found = np.empty((3 if stage + 2 < stages else 1, stages + 1), np.int64)
    trial = parts.copy()
    low, high = parts[stage] + 1, parts[stages] - stages + stage + 1
    for row in range(len(found)):
        found[row] = places
        trial[stage + 1] = min(max(middle + (row - 1) * reach, low), high)
        place_rest(q, trial, found[row], stage, stage + 2)
    return found


@inner_njit
def refine_parts(q: AheadTables, parts: Ints, places: Ints, first: int, reach: int) -> float:
    """Moves part cuts from number `first` on by at most `reach`; the length that is reached.

    Those behind a cut that moves stay, or are balanced again.
    """
    stages = len(parts) - 1
    best = quick_length_s(q, parts, places)
    kept = parts.copy()
    for k in range(first, stages):
        middle = kept[k]
        low = max(middle - reach, kept[k - 1] + 1)
        for at in range(low, min(middle + reach, parts[stages] - stages + k) + 1):
            if at == middle:
                continue
            parts[:] = kept
            parts[k] = at
            if at < parts[k + 1]:
                length = quick_length_s(q, parts, places)
                if length < best:
                    best = length
                    kept[:] = parts
            if k + 1 < stages:
                balance_parts(q, parts, places, k)
                length = quick_length_s(q, parts, places)
                if length < best:
                    best = length
                    kept[:] = parts
    parts[:] = kept
    return best


@entry_njit
def look_ahead(
    q: AheadTables, parts: Ints, places: Ints, stage: int, placed: bool, variants: Ints
) -> float:
    """Fills in the rest behind one candidate; the length that is reached.

    Args:
        q: the tables.
        parts: `[S + 1]`, known up to `stage`, or `stage + 1` where `placed`.
        places: `[S + 1]`, known up to `stage + 1`.
        stage: the stage that is decided about.
        placed: whether its parts are decided now, and not its devices.
        variants: of `places_of_rest`, used where `placed`.
    """
    if not placed:
        place_rest(q, parts, places, stage, stage + 1)
        return refine_parts(q, parts, places, stage + 1, REFINE)
    best, kept = np.inf, parts.copy()
    chosen = 0
    for row in range(len(variants)):
        length = part_rest(q, parts, variants[row], stage + 1)
        if length < best:
            best, chosen = length, row
            kept[:] = parts
    parts[:], places[:] = kept, variants[chosen]
    return refine_parts(q, parts, places, stage + 2, REFINE)
