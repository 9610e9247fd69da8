"""What a partial pipeline could become: the rest filled in several ways, the shortest kept.

A feature of the pipeline policy, which still decides. Balanced stages alone mislead where servers
are joined in one stage and the others become small: the balance says nothing of gradients that are
reduced over the network. So device cuts of the rest are tried at and beside the starts of servers.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mcm_models.pipelines.balanced import ideal_place
from mcm_models.pipelines.kernels import Ints
from mcm_models.pipelines.tables import PipelineTables

REFINE = 3
"""How far part cuts of the rest are moved from where work is balanced."""


@njit(cache=True, error_model="numpy")
def quick_length_s(t: PipelineTables, parts: Ints, places: Ints) -> float:
    """As `kernels.unchecked_length_s`, fifteen times as fast: arrays are taken from the tuple once.

    A test holds both to the same numbers.
    """
    forward, backward, weights, cut = t.forward, t.backward, t.weights, t.cut
    speed, servers, busiest = t.speed, t.servers, t.busiest
    reduce, reduce_start = t.reduce, t.reduce_start
    stages = len(parts) - 1
    total, drained, ending = 0.0, 0.0, 0.0
    most, most_forward, most_backward = 0.0, 0.0, 0.0
    i, a = parts[0], places[0]
    for k in range(stages):
        j, b = parts[k + 1], places[k + 1]
        ahead = (forward[j] - forward[i]) / speed[a, b]
        back = (backward[j] - backward[i]) / speed[a, b]
        reduced = weights[j] - weights[i]
        if reduced > 0.0:
            ending = max(ending, reduced * reduce[a, b] + reduce_start[a, b] - drained)
        total += ahead + back
        drained += back
        most = max(most, ahead + back)
        most_forward, most_backward = max(most_forward, ahead), max(most_backward, back)
        if k + 1 < stages:
            c = places[k + 2]
            if servers[a, c] == 1.0:
                ahead = cut[j] * t.intra / min(b - a, c - b) + t.intra_latency
            else:
                share = max(busiest[a, b], busiest[b, c])
                ahead = cut[j] * t.inter * share + t.inter_latency
            back = ahead * t.both_ways
            total += ahead + back
            drained += back
            most = max(most, ahead + back)
            most_forward, most_backward = max(most_forward, ahead), max(most_backward, back)
        i, a = j, b
    if t.gpipe > 0.0:
        most = most_forward + most_backward
    return total + (t.micro_batches - 1.0) * most + ending


@njit(cache=True, error_model="numpy")
def quick_part(t: PipelineTables, i: int, a: int, b: int, left: int) -> int:
    """As `balanced.ideal_part`, five times as fast."""
    forward, backward, speed = t.forward, t.backward, t.speed
    parts, devices = len(forward) - 1, speed.shape[0] - 1
    done = forward[i] + backward[i]
    rest = forward[parts] + backward[parts] - done
    goal = done + rest * speed[a, b] / speed[a, devices]
    low, high = i + 1, parts - left + 1
    while low < high:
        middle = (low + high) // 2
        if forward[middle] + backward[middle] < goal:
            low = middle + 1
        else:
            high = middle
    before = goal - forward[low - 1] - backward[low - 1]
    if low - 1 > i and before < forward[low] + backward[low] - goal:
        return low - 1
    return low


@njit(cache=True)
def usual_places(t: PipelineTables) -> Ints:
    """Device cuts worth trying, rising: at, beside and between the starts of servers."""
    devices = t.speed.shape[0] - 1
    wanted = np.zeros(devices + 1, np.bool_)
    wanted[1] = wanted[devices - 1] = True
    start = 0
    for b in range(1, devices + 1):
        if b == devices or t.servers[b - 1, b + 1] == 2.0:
            wanted[b - 1] = wanted[b] = True
            if b < devices:
                wanted[b + 1] = True
            wanted[(start + b) // 2] = True
            start = b
    wanted[0] = wanted[devices] = False
    return np.flatnonzero(wanted)


@njit(cache=True)
def balance_parts(t: PipelineTables, parts: Ints, places: Ints, stage: int) -> None:
    """Part cuts from the end of `stage` on, for device cuts that are all known."""
    stages = len(parts) - 1
    for k in range(stage, stages - 1):
        parts[k + 1] = quick_part(t, parts[k], places[k], places[k + 1], stages - k)


@njit(cache=True)
def quick_complete(t: PipelineTables, parts: Ints, places: Ints, stage: int, placed: bool) -> None:
    """As `balanced.complete`, faster."""
    stages = len(parts) - 1
    for k in range(stage, stages - 1):
        if k > stage or not placed:
            places[k + 1] = ideal_place(t, places[k], stages - k)
        parts[k + 1] = quick_part(t, parts[k], places[k], places[k + 1], stages - k)


@njit(cache=True)
def place_rest(
    t: PipelineTables, parts: Ints, places: Ints, stage: int, first: int, pool: Ints
) -> float:
    """Sets the device cuts behind `stage`, and part cuts from number `first`; the length.

    Args:
        t: the tables.
        parts: `[S + 1]`, known before number `first`.
        places: `[S + 1]`, known up to number `stage + 1`.
        stage: the last one whose devices are known.
        first: `stage + 1` or `stage + 2`.
        pool: device cuts to try, rising.
    """
    stages = len(parts) - 1
    devices = places[stages]
    free = stages - stage - 2
    if free <= 0:
        balance_parts(t, parts, places, first - 1)
        return quick_length_s(t, parts, places)
    best = np.inf
    best_parts, best_places = parts.copy(), places.copy()
    b = places[stage + 1]
    size = len(pool) + 1
    # Where a stage ends hangs on its own devices alone, so that nothing is searched twice.
    if first == stage + 1:
        parts[first] = quick_part(t, parts[stage], places[stage], b, stages - stage)
    for x in range(size):
        one = b + 1 if x == 0 else pool[x - 1]
        if one <= b or one > devices - free:
            continue
        places[stage + 2] = one
        parts[stage + 2] = quick_part(t, parts[stage + 1], b, one, stages - stage - 1)
        if free == 1:
            length = quick_length_s(t, parts, places)
            if length < best:
                best = length
                best_parts[:] = parts
                best_places[:] = places
            continue
        for y in range(size):
            two = one + 1 if y == 0 else pool[y - 1]
            if two <= one or two > devices - free + 1:
                continue
            places[stage + 3] = two
            for later in range(stage + 4, stages):
                places[later] = ideal_place(t, places[later - 1], stages - later + 1)
            balance_parts(t, parts, places, stage + 2)
            length = quick_length_s(t, parts, places)
            if length < best:
                best = length
                best_parts[:] = parts
                best_places[:] = places
    if best < np.inf:
        parts[:] = best_parts
        places[:] = best_places
    return best


@njit(cache=True)
def places_of_rest(
    t: PipelineTables, parts: Ints, places: Ints, stage: int, middle: int, reach: int, pool: Ints
) -> Ints:
    """Device cuts that suit the rest if the parts of `stage` end early, in the middle or late.

    Shared by all candidates for where they end.

    Args:
        t: the tables.
        parts: `[S + 1]`, known up to number `stage`.
        places: `[S + 1]`, known up to number `stage + 1`.
        stage: the stage that is decided about.
        middle: position of the middle candidate.
        reach: largest offset of a candidate.
        pool: of `usual_places`.

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
        place_rest(t, trial, found[row], stage, stage + 2, pool)
    return found


@njit(cache=True)
def refine_parts(t: PipelineTables, parts: Ints, places: Ints, first: int, reach: int) -> float:
    """Moves part cuts from number `first` on by at most `reach`; the length that is reached.

    Those behind a cut that moves are balanced again.
    """
    stages = len(parts) - 1
    best = quick_length_s(t, parts, places)
    kept = parts.copy()
    for k in range(first, stages):
        middle = kept[k]
        for at in range(middle - reach, middle + reach + 1):
            if at == middle or at <= kept[k - 1] or at > parts[stages] - stages + k:
                continue
            parts[:k] = kept[:k]
            parts[k] = at
            balance_parts(t, parts, places, k)
            length = quick_length_s(t, parts, places)
            if length < best:
                best = length
                kept[:] = parts
    parts[:] = kept
    return best


@njit(cache=True)
def look_ahead(
    t: PipelineTables,
    parts: Ints,
    places: Ints,
    stage: int,
    placed: bool,
    variants: Ints,
    pool: Ints,
) -> float:
    """Fills in the rest behind one candidate; the length that is reached.

    Args:
        t: the tables.
        parts: `[S + 1]`, known up to `stage`, or `stage + 1` where `placed`.
        places: `[S + 1]`, known up to `stage + 1`.
        stage: the stage that is decided about.
        placed: whether its parts are decided now, and not its devices.
        variants: of `places_of_rest`, used where `placed`.
        pool: of `usual_places`, used where not.
    """
    if not placed:
        place_rest(t, parts, places, stage, stage + 1, pool)
        return refine_parts(t, parts, places, stage + 1, REFINE)
    best, chosen = np.inf, 0
    for row in range(len(variants)):
        balance_parts(t, parts, variants[row], stage + 1)
        length = quick_length_s(t, parts, variants[row])
        if length < best:
            best, chosen = length, row
    places[:] = variants[chosen]
    balance_parts(t, parts, places, stage + 1)
    return refine_parts(t, parts, places, stage + 2, REFINE)


@njit(cache=True)
def looked_ahead_pipeline(t: PipelineTables, stages: int, reach: int) -> tuple[Ints, Ints]:
    """Cuts and device cuts with both ends, `[S + 1]` each, decided by the look-ahead alone.

    Args:
        t: the tables.
        stages: of the pipeline.
        reach: largest offset of a candidate from the ideal place.
    """
    parts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    parts[stages], places[stages] = len(t.forward) - 1, t.speed.shape[0] - 1
    pool = usual_places(t)
    for step in range(2 * (stages - 1)):
        stage, placed = step // 2, step % 2 == 1
        left = stages - stage
        row = parts if placed else places
        variants = np.zeros((0, stages + 1), np.int64)
        if placed:
            middle = quick_part(t, parts[stage], places[stage], places[stage + 1], left)
            variants = places_of_rest(t, parts, places, stage, middle, reach, pool)
        else:
            middle = ideal_place(t, places[stage], left)
        low = max(middle - reach, row[stage] + 1)
        high = min(middle + reach, row[stages] - left + 1)
        best, chosen = np.inf, low
        for at in range(low, high + 1):
            trial_parts, trial_places = parts.copy(), places.copy()
            trial = trial_parts if placed else trial_places
            trial[stage + 1] = at
            length = look_ahead(t, trial_parts, trial_places, stage, placed, variants, pool)
            if length < best:
                best, chosen = length, at
        row[stage + 1] = chosen
    return parts, places
