"""What the pipeline policy sees of the next cut, for all candidates of one partial pipeline.

The policy decides stage by stage: first where its devices end, then where its parts end. Its
candidates are offsets around the ideal place, which balances work, so that one small network
serves all sizes. Numbers are in multiples of the perfectly balanced pipeline's.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mcm_models.pipelines.balanced import ideal_part, ideal_place
from mcm_models.pipelines.kernels import (
    Ints,
    backward_s,
    fits,
    forward_s,
    reduction_s,
    transfer_s,
)
from mcm_models.pipelines.policy_lookahead import (
    look_ahead,
    places_of_rest,
    quick_complete,
    quick_length_s,
    usual_places,
)
from mcm_models.pipelines.tables import PipelineTables

FEATURES_VERSION = 2
"""Goes up with every change of what a feature means."""

REACH = 16
"""Largest offset of a candidate from the ideal place."""

NUM_CANDIDATES = 2 * REACH + 1
FEATURES, CONTEXT = 20, 8

SHORTER, SHORTER_SCALE = 19, 30.0
"""The feature that says by how much of itself the look-ahead's best is shorter, and its scale."""

_LARGEST = 4.0
"""Features are cut to this, whatever the numbers."""


@njit(cache=True)
def see(
    t: PipelineTables,
    parts: Ints,
    places: Ints,
    stage: int,
    placed: bool,
    rows: NDArray[np.float32],
    context: NDArray[np.float32],
    mask: NDArray[np.bool_],
) -> int:
    """Fills features, context and mask; the position of the middle candidate.

    Args:
        t: the tables.
        parts: `[S + 1]`, decided up to `stage`, with both ends.
        places: `[S + 1]`, decided up to `stage`, or `stage + 1` where `placed`.
        stage: the stage that is decided about, not the last.
        placed: whether its devices are decided, so that its parts are next.
        rows: `[A, F]`.
        context: `[G]`.
        mask: `[A]`; true for at least one.
    """
    stages = len(parts) - 1
    left = stages - stage
    count, devices = parts[stages], places[stages]
    i, a = parts[stage], places[stage]
    work = t.forward[count] + t.backward[count]
    slot = work / t.speed[0, devices]
    whole = slot * t.micro_batches
    repeats = t.micro_batches - 1.0
    total, drained, ending, most = _so_far(t, parts, places, stage, placed)
    if placed:
        middle = ideal_part(t, i, a, places[stage + 1], left)
        low, high = i + 1, count - left + 1
    else:
        middle = ideal_place(t, a, left)
        low, high = a + 1, devices - left + 1
    trial_parts, trial_places = parts.copy(), places.copy()
    pool = usual_places(t)
    variants = np.zeros((0, stages + 1), np.int64)
    if placed:
        variants = places_of_rest(t, parts, places, stage, middle, REACH, pool)
    best, nearest = np.inf, np.inf
    lightest = np.inf
    rows[:] = 0.0
    mask[:] = False
    found = False
    for offset in range(-REACH, REACH + 1):
        at = middle + offset
        if low <= at <= high:
            index = offset + REACH
            if placed:
                trial_parts[stage + 1] = at
                lightest = min(lightest, t.cut[at])
                quick_complete(t, trial_parts, trial_places, stage + 1, False)
            else:
                trial_places[stage + 1] = at
                quick_complete(t, trial_parts, trial_places, stage, True)
            length = quick_length_s(t, trial_parts, trial_places) / whole
            best = min(best, length)
            ahead_length = (
                look_ahead(t, trial_parts, trial_places, stage, placed, variants, pool) / whole
            )
            nearest = min(nearest, ahead_length)
            i2, b = trial_parts[stage + 1], trial_places[stage + 1]
            mask[index] = True
            if placed and not fits(t, i, at, a, b, left):
                mask[index] = False
            found = found or mask[index]
            ahead, back = forward_s(t, i, i2, a, b), backward_s(t, i, i2, a, b)
            over = transfer_s(t, i2, a, b, trial_places[stage + 2])
            both = over * (1.0 + t.both_ways)
            rest = (work - t.forward[i2] - t.backward[i2]) / t.speed[b, devices]
            reduced = reduction_s(t, i, i2, a, b)
            before = transfer_s(t, i, places[stage - 1], a, b) if stage > 0 else 0.0
            before *= 1.0 + t.both_ways
            longest = max(most, ahead + back, both, before)
            lower = total + ahead + back + both + before + rest
            lower += repeats * max(longest, rest) + max(ending, reduced - drained)
            rest_reduced = 0.0
            for k in range(stage + 1, stages):
                rest_reduced = max(
                    rest_reduced,
                    reduction_s(
                        t, trial_parts[k], trial_parts[k + 1], trial_places[k], trial_places[k + 1]
                    ),
                )
            row = rows[index]
            row[0] = (ahead + back) / slot
            row[1] = rest / slot
            row[2] = longest / slot
            row[3] = both / slot
            row[4] = before / slot
            row[5] = reduced / whole
            row[6] = max(reduced - drained, 0.0) / whole
            row[7] = rest_reduced / whole
            row[8] = length
            row[10] = lower / whole
            row[11] = offset / REACH
            row[12] = abs(offset) / REACH
            row[13] = t.servers[a, b] - 1.0
            row[14] = t.servers[b - 1, b + 1] - 1.0
            row[15] = t.speed[a, b] * left / t.speed[a, devices] - 1.0
            row[16] = t.cut[at] if placed else 0.0
            row[17] = _lightest_ahead(t, trial_parts, trial_places, stage + 1) / slot
            row[18] = ahead_length
    for index in range(NUM_CANDIDATES):
        if rows[index, 8] > 0.0:
            rows[index, 9] = 10.0 * (rows[index, 8] / best - 1.0)
            rows[index, SHORTER] = SHORTER_SCALE * (rows[index, 18] / nearest - 1.0)
            if placed and lightest > 0.0:
                rows[index, 16] = np.log(max(rows[index, 16] / lightest, 1e-6))
        if not found and rows[index, 8] > 0.0:
            mask[index] = True
        for feature in range(FEATURES):
            rows[index, feature] = min(max(rows[index, feature], -_LARGEST), _LARGEST)
    context[0] = 1.0 if placed else 0.0
    context[1] = stage / stages
    context[2] = left / 4.0
    context[3] = min(t.micro_batches / 16.0, _LARGEST)
    context[4] = min(most / slot, _LARGEST)
    context[5] = min(ending / whole, _LARGEST)
    context[6] = t.servers[a, devices] / left - 1.0
    context[7] = min(t.weights[count] * t.reduce[0, devices] / whole, _LARGEST)
    return middle


@njit(cache=True)
def _so_far(
    t: PipelineTables, parts: Ints, places: Ints, stage: int, placed: bool
) -> tuple[float, float, float, float]:
    """Sum of times, backward times, exposed reduction and longest slot of the stages before."""
    total, drained, ending, most = 0.0, 0.0, 0.0, 0.0
    for k in range(stage):
        i, j, a, b = parts[k], parts[k + 1], places[k], places[k + 1]
        ahead, back = forward_s(t, i, j, a, b), backward_s(t, i, j, a, b)
        ending = max(ending, reduction_s(t, i, j, a, b) - drained)
        total += ahead + back
        drained += back
        most = max(most, ahead + back)
        if k + 1 < stage or placed:
            ahead = transfer_s(t, j, a, b, places[k + 2])
            back = ahead * t.both_ways
            # The transfer into the stage at hand is counted with its candidates.
            if k + 1 < stage:
                total += ahead + back
            drained += back
            most = max(most, ahead + back)
    return total, drained, ending, most


@njit(cache=True)
def _lightest_ahead(t: PipelineTables, parts: Ints, places: Ints, stage: int) -> float:
    """The shortest transfer behind `stage` of cuts near where its balanced end is."""
    stages = len(parts) - 1
    if stage >= stages - 1:
        return 0.0
    lightest = np.inf
    for offset in range(-4, 5):
        at = parts[stage + 1] + offset
        if parts[stage] < at < parts[stages]:
            lightest = min(
                lightest,
                transfer_s(t, at, places[stage], places[stage + 1], places[stage + 2]),
            )
    return lightest * (1.0 + t.both_ways)
