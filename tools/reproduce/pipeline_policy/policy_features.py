"""What the pipeline policy sees of the next cut, for all candidates of one partial pipeline.

The policy decides stage by stage: first where its devices end, then where its parts end. Its
candidates are offsets around the ideal place, which balances work, so that one small network
serves all sizes. Numbers are in multiples of the perfectly balanced pipeline's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, quotient_njit
from mcm_models.pipelines.kernels import Ints, fits, ideal_place
from mcm_models.pipelines.problem import PipelineTables
from pipeline_policy.policy_lookahead import (
    AheadTables,
    SoFar,
    least_s,
    look_ahead,
    places_of_rest,
    quick_part,
    up_to,
    with_stage,
    with_transfer,
)

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEATURES_VERSION = 3
"""Goes up with every change of what a feature means."""

REACH = 16
"""Largest offset of a candidate from the ideal place."""

NUM_CANDIDATES = 2 * REACH + 1
FEATURES, CONTEXT = 18, 8

SLACK = 0.02
"""Candidates whose completion is longer than the shortest by more than this share are left out.

What the look-ahead cannot tell apart is what is learned; everything else it knows better.
"""

SHORTER, SHORTER_SCALE = 17, 1.0 / SLACK
"""The feature that says by how much of itself the look-ahead's best is shorter, and its scale."""

_LARGEST = 4.0
"""Features are cut to this, whatever the numbers."""


class FeatureArrays(NamedTuple):
    """Arrays that `featurise` fills; for E partial pipelines, each has that axis in front.

    Attributes:
        rows: `[A, F]`, features of the candidates.
        context: `[G]`.
        mask: `[A]`; true for at least one.
        plan: `[2, S + 1]`, cuts and device cuts of the shortest completion.
    """

    rows: Singles
    context: Singles
    mask: Bools
    plan: Ints


@quotient_njit
def featurise(
    t: PipelineTables,
    q: AheadTables,
    parts: Ints,
    places: Ints,
    stage: int,
    placed: bool,
    seen: FeatureArrays,
) -> tuple[int, int, float]:
    """Fills features, context, mask and plan.

    Args:
        t: the tables.
        q: the same for the look-ahead.
        parts: `[S + 1]`, decided up to `stage`, with both ends.
        places: `[S + 1]`, decided up to `stage`, or `stage + 1` where `placed`.
        stage: the stage that is decided about, not the last.
        placed: whether its devices are decided, so that its parts are next.
        seen: filled.

    Returns:
        The position of the middle candidate, the index of the one with the shortest completion,
        and its length.
    """
    stages = len(parts) - 1
    left = stages - stage
    i, a = parts[stage], places[stage]
    later_decisions = 2 * (left - 1) - (2 if placed else 1)
    slack = 1.0 + SLACK * min(later_decisions / 5.0, 1.0)
    middle, low, high = _candidates(q, parts, places, stage, placed)
    variants = np.zeros((0, stages + 1), np.int64)
    if placed:
        variants = places_of_rest(q, parts, places, stage, middle, REACH)
    trial_parts, trial_places = parts.copy(), places.copy()
    shortest, fitting, lightest = np.inf, np.inf, np.inf
    lengths, fit = np.full(NUM_CANDIDATES, np.inf), np.zeros(NUM_CANDIDATES, np.bool_)
    seen.rows[:] = 0.0
    for turn in range(NUM_CANDIDATES):
        # The middle one first: it shows which of the others are too long in any case.
        index = REACH if turn == 0 else turn - (turn <= REACH)
        at = middle + index - REACH
        if at < low or at > high:
            continue
        if placed:
            lightest = min(lightest, q.part[at, 3])
            trial_parts[stage + 1], trial_places[stage + 1] = at, places[stage + 1]
            here = up_to(q, trial_parts, trial_places, stage)
            here = with_stage(q, here, i, at, a, places[stage + 1])
            if least_s(q, here, at, places[stage + 1]) > fitting * slack:
                continue
        else:
            trial_places[stage + 1] = at
        length = look_ahead(q, trial_parts, trial_places, stage, placed, variants)
        lengths[index] = length
        i2, b = trial_parts[stage + 1], trial_places[stage + 1]
        fit[index] = not placed or fits(t, i, i2, a, b, left)
        if fit[index]:
            fitting = min(fitting, length)
        if length < shortest:
            shortest = length
            seen.plan[0], seen.plan[1] = trial_parts, trial_places
        row = seen.rows[index]
        _featurise_completion(t, q, trial_parts, trial_places, stage, length, row)
        row[10] = (index - REACH) / REACH
        row[11] = abs(index - REACH) / REACH
        row[15] = q.part[at, 3] if placed else 0.0
    nearest = fitting
    if fitting == np.inf:
        nearest = shortest
        fit[:] = True
    top = _allow_close(lengths, fit, nearest * slack, seen.mask)
    _relate_rows(lengths, nearest, lightest, seen.rows)
    known = (
        up_to(q, parts, places, stage) if placed else up_to(q, seen.plan[0], seen.plan[1], stage)
    )
    _featurise_context(t, q, known, parts, places, stage, placed, seen.context)
    return middle, top, shortest


@inlined_njit
def _candidates(
    q: AheadTables, parts: Ints, places: Ints, stage: int, placed: bool
) -> tuple[int, int, int]:
    """The middle candidate, and the first and last position that leave the rest something."""
    left = len(parts) - 1 - stage
    i, a = parts[stage], places[stage]
    if placed:
        middle = quick_part(q, i, a, places[stage + 1], left)
        return middle, i + 1, parts[-1] - left + 1
    return ideal_place(q.span[:, :, 2], a, left), a + 1, places[-1] - left + 1


@inlined_njit
def _featurise_completion(
    t: PipelineTables,
    q: AheadTables,
    parts: Ints,
    places: Ints,
    stage: int,
    length: float,
    row: Singles,
) -> None:
    """Fills the features of a candidate that hang on its completion.

    Args:
        t: the tables.
        q: the same for the look-ahead.
        parts: `[S + 1]`, of the completion.
        places: `[S + 1]`.
        stage: the stage that is decided about.
        length: of the completion.
        row: `[F]`, filled.
    """
    part, span = q.part, q.span
    stages = len(parts) - 1
    left, count, devices = stages - stage, parts[stages], places[stages]
    i, i2 = parts[stage], parts[stage + 1]
    a, b, c = places[stage], places[stage + 1], places[stage + 2]
    work = part[count, 1]
    slot = work * span[0, devices, 1]
    whole = slot * t.micro_batches
    before = up_to(q, parts, places, stage)
    here = with_stage(q, before, i, i2, a, b)
    sent = with_transfer(q, here, i2, a, b, c)
    reduced = (part[i2, 2] - part[i, 2]) * span[a, b, 4] + span[a, b, 5]
    reduced_later, thin = 0.0, 0
    for k in range(stage + 1, stages):
        j, j2, d, e = parts[k], parts[k + 1], places[k], places[k + 1]
        later = (part[j2, 2] - part[j, 2]) * span[d, e, 4] + span[d, e, 5]
        reduced_later = max(reduced_later, later)
        thin += j2 - j == 1
    row[0] = (here[0] - before[0]) / slot
    row[1] = (work - part[i2, 1]) * span[b, devices, 1] / slot
    row[2] = sent[3] / slot
    row[3] = (sent[0] - here[0]) / slot
    row[4] = before[0] / slot
    row[5] = reduced / whole
    row[6] = max(reduced - before[1], 0.0) / whole
    row[7] = reduced_later / whole
    row[8] = length / whole
    row[9] = least_s(q, sent, i2, b) / whole
    row[12] = span[a, b, 2] - 1.0
    row[13] = span[b - 1, b + 1, 2] - 1.0
    row[14] = span[a, b, 0] * left * span[a, devices, 1] - 1.0
    row[16] = thin


@inner_njit
def _allow_close(lengths: Floats, fit: Bools, longest: float, mask: Bools) -> int:
    """Allows what fits and is at most as long as `longest`; the first of the shortest, or -1."""
    top = -1
    for index in range(len(lengths)):
        mask[index] = lengths[index] <= longest and fit[index]
        if mask[index] and (top < 0 or lengths[index] < lengths[top]):
            top = index
    return top


@quotient_njit
def _relate_rows(lengths: Floats, nearest: float, lightest: float, rows: Singles) -> None:
    """Fills the features that compare candidates, and cuts all of them to their range.

    Args:
        lengths: `[A]`, infinite for what is no candidate or too long in any case.
        nearest: the least length that others are compared with.
        lightest: least bytes at the cut of a candidate; infinite where devices are decided about.
        rows: `[A, F]`, with bytes at the cut where their logarithm goes.
    """
    for index in range(len(lengths)):
        if lengths[index] < np.inf:
            rows[index, SHORTER] = SHORTER_SCALE * (lengths[index] / nearest - 1.0)
            if 0.0 < lightest < np.inf:
                rows[index, 15] = np.log(max(rows[index, 15] / lightest, 1e-6))
        for feature in range(FEATURES):
            rows[index, feature] = min(max(rows[index, feature], -_LARGEST), _LARGEST)


@inlined_njit
def _featurise_context(
    t: PipelineTables,
    q: AheadTables,
    known: SoFar,
    parts: Ints,
    places: Ints,
    stage: int,
    placed: bool,
    context: Singles,
) -> None:
    """Fills what all candidates share; `known` is of the stages before `stage`."""
    span = q.span
    stages = len(parts) - 1
    left, count, devices, a = stages - stage, parts[stages], places[stages], places[stage]
    slot = q.part[count, 1] * span[0, devices, 1]
    whole = slot * t.micro_batches
    context[0] = 1.0 if placed else 0.0
    context[1] = stage / stages
    context[2] = left / 4.0
    context[3] = min(t.micro_batches / 16.0, _LARGEST)
    context[4] = min(known[3] / slot, _LARGEST)
    context[5] = min(known[2] / whole, _LARGEST)
    context[6] = span[a, devices, 2] / left - 1.0
    context[7] = min(q.part[count, 2] * span[0, devices, 4] / whole, _LARGEST)


@entry_njit
def featurise_all(
    t: PipelineTables,
    q: AheadTables,
    parts: Ints,
    places: Ints,
    stage: int,
    placed: bool,
    seen: FeatureArrays,
) -> tuple[Ints, Ints, Floats]:
    """As `featurise`, for E partial pipelines of one problem.

    Args:
        t: the tables.
        q: the same for the look-ahead.
        parts: `[E, S + 1]`.
        places: `[E, S + 1]`.
        stage: the stage that is decided about.
        placed: whether its devices are decided.
        seen: `[E, ...]`, filled.

    Returns:
        `[E]` each: positions of the middle candidates, indices of those with the shortest
        completions, and their lengths.
    """
    lanes = len(parts)
    middle, top, lengths = np.empty(lanes, np.int64), np.empty(lanes, np.int64), np.empty(lanes)
    for lane in range(lanes):
        one = FeatureArrays(seen.rows[lane], seen.context[lane], seen.mask[lane], seen.plan[lane])
        middle[lane], top[lane], lengths[lane] = featurise(
            t, q, parts[lane], places[lane], stage, placed, one
        )
    return middle, top, lengths
