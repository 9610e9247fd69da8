"""The best of all pipelines: every cut of the chain with every cut of the devices, coarse to fine.

Cuts are first gathered into a few intervals. Dynamic programming over these, with lower bounds for
what a stage between two intervals takes, shows which stages may belong to a pipeline that is
shorter than the best one known (`stage_labels`). Intervals that none of those begins in are
dropped, the others divided, and what has been learned of an interval bounds its parts. Where each
interval holds one cut, nothing is bounded any more, and the shortest label is the optimum.

Why nothing is lost: a pipeline with its cuts in given intervals takes at least what the intervals
say (`cut_intervals`), and its length is monotone in these numbers. A stage is dropped only if all
pipelines with that stage are longer than a known one. A label is dropped only for another one that
is as good in every number, whatever is before it.

The pipeline whose fullest device holds least, over all cuts and device cuts.

A stage holds no less when it takes more parts, so that longer ones are not looked at once it holds
more than the best pipeline so far.

Pipelines without learning and without proof: balanced, and improved by descent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit
from mcm_models.pipelines.kernels import Ints, balanced_pipeline, descend, length_s, memory_bytes
from mcm_models.pipelines.problem import (
    Floats,
    Pipeline,
    PipelineProblem,
    PipelineTables,
    pipeline_tables,
)
from mcm_passes.parallelism.pipelines import stage_labels
from mcm_passes.parallelism.pipelines.cut_intervals import CutIntervals, cut_intervals

__all__ = ["best_pipeline", "least_memory"]

FIRST_INTERVALS = 24
"""Intervals of cuts that the search begins with, of equal work."""

DIVISION = 4
"""Intervals that one is divided into."""

FIRST_SLACK, SLACK_GROWTH = 0.02, 4.0
"""How far above the bound of all work on all devices the search looks, at first and each time."""

FIRST_STEP, STEP_GROWTH = 0.005, 2.0
"""Of that, how far above what the first intervals say, and how much further each time."""

_TOLERANCE = 1e-12
"""Relative; pipelines that equal the known one must survive rounding."""


def best_pipeline(problem: PipelineProblem, below_s: float = math.inf) -> Pipeline | None:
    """The pipeline with the shortest iteration, or None if none fits into memory.

    Exact for the formula of `mcm_models.pipelines.kernels`, over all cuts and allowed device cuts.

    Args:
        problem: what is decided.
        below_s: seconds; where no pipeline is shorter, the search may end with None.
    """
    stages, parts, devices = problem.stages, problem.num_parts, problem.devices.num_devices
    if stages > min(parts, devices):
        return None
    tables = pipeline_tables(problem)
    known, places = descended(problem, tables), problem.allowed_places
    if known.devices and not places[list(known.devices)].all():
        known = Pipeline((), (), math.inf)
    if math.isinf(known.length_s):
        found = roomiest_pipeline(tables, stages, places)
        if found is None:
            return None
        known = _settled(tables, *found, places)
    if stages == 1:
        return known if known.length_s < below_s else None
    work = float(tables.forward[-1] + tables.backward[-1])
    bound = work * tables.micro_batches / float(tables.speed[0, -1])
    space, floor = _Space(tables, stages, _distinct_cuts(tables), places), 0.0
    wide, close = FIRST_SLACK, FIRST_STEP
    while True:
        most = min(known.length_s, below_s)
        limit = min(most, bound * (1.0 + wide))
        known, floor, bounded = _search(space, known, limit, floor, close)
        if floor >= min(known.length_s, below_s):
            return known if known.length_s < below_s else None
        if bounded:
            close *= STEP_GROWTH
        if floor >= limit:
            wide *= SLACK_GROWTH


@dataclass(frozen=True, eq=False)
class _Space:
    """All pipelines: tables, stages, cuts in order with both ends, and `allowed_places`."""

    tables: PipelineTables
    stages: int
    cuts: Ints
    places: NDArray[np.bool_]


def _distinct_cuts(t: PipelineTables) -> Ints:
    """Cuts with both ends, without those that are equal in every number to the one before."""
    numbers = np.stack([t.forward, t.backward, t.weights, t.state, t.kept, t.cut])
    differs = np.any(np.diff(numbers, axis=1) != 0.0, axis=0)
    differs[-1] = True
    return np.concatenate([[0], np.flatnonzero(differs) + 1]).astype(np.int64)


def _search(
    space: _Space, known: Pipeline, limit: float, floor: float, close: float
) -> tuple[Pipeline, float, bool]:
    """Looks for a pipeline of at most `limit` seconds, or of little more than is proven.

    Args:
        space: all pipelines.
        known: the best pipeline so far.
        limit: seconds.
        floor: seconds that no pipeline is shorter than.
        close: how far above the floor to look, as a share of it.

    Returns:
        The best pipeline known now, seconds that none is shorter than, and whether intervals that
        are not divided yet bounded the limit.
    """
    t, stages = space.tables, space.stages
    low, high = _first_intervals(t, space.cuts)
    states = _all_states(space, len(low))
    bounded = False
    while True:
        g = cut_intervals(t, low, high, space.cuts)
        most = limit * (1.0 + _TOLERANCE)
        before = stage_labels.bounds_before(t, g, states, most)
        labels = stage_labels.labels_behind(t, g, states, before, most)
        length, state, label = stage_labels.least_label(states, labels, t.micro_batches - 1.0)
        if state < 0:
            return known, max(limit, floor), bounded
        found = _settled(t, *_read_back(g, states, labels, state, label, t), space.places)
        if found.length_s < known.length_s:
            known = found
        limit = min(limit, known.length_s)
        if np.array_equal(low, high):
            return known, known.length_s, bounded
        if not bounded:
            bounded, limit = True, min(limit, max(length, floor) * (1.0 + close))
        low, high, states = _divided(t, stages, low, high, states, labels)


def _first_intervals(t: PipelineTables, allowed: Ints) -> tuple[Ints, Ints]:
    """First and last of each interval, as indices into `allowed`; the ends stand alone."""
    inner = len(allowed) - 2
    done = (t.forward + t.backward)[allowed[1:-1]]
    share = np.floor(done / max(float(t.forward[-1] + t.backward[-1]), 1e-300) * FIRST_INTERVALS)
    first = 1 + np.concatenate([[0], np.flatnonzero(np.diff(share)) + 1]).astype(np.int64)
    last = np.concatenate([first[1:] - 1, [inner]])
    return np.concatenate([[0], first, [inner + 1]]), np.concatenate([[0], last, [inner + 1]])


def _all_states(space: _Space, intervals: int) -> stage_labels.StageStates:
    stages, devices = space.stages, space.tables.speed.shape[0] - 1
    usable = space.places.copy()
    usable[[0, devices]] = True
    rows: list[Ints] = []
    for k in range(stages):
        left = stages - k
        first = np.arange(k, 1 if k == 0 else devices - left + 1)
        where = np.arange(1) if k == 0 else np.arange(1, intervals - 1)
        ends = np.arange(devices if left == 1 else k + 1, devices - left + 2)
        grid = np.stack(np.meshgrid(first, where, ends, indexing="ij"), axis=-1).reshape(-1, 3)
        grid = grid[(grid[:, 0] < grid[:, 2]) & usable[grid[:, 0]] & usable[grid[:, 2]]]
        rows.append(np.column_stack([np.full(len(grid), k), grid]))
    table = np.concatenate(rows)
    return _states(stages, devices, table, np.zeros((len(table), 4)))


def _states(stages: int, devices: int, rows: Ints, behind: Floats) -> stage_labels.StageStates:
    """States of rows of stage, first device, interval and end, sorted."""
    order = np.lexsort((rows[:, 3], rows[:, 2], rows[:, 1], rows[:, 0]))
    stage, first, interval, end = (np.ascontiguousarray(c) for c in rows[order].T)
    begin = np.searchsorted(stage * devices + first, np.arange(stages * devices + 1))
    return stage_labels.StageStates(
        stage, first, interval, end, behind[order], begin.astype(np.int64)
    )


def _divided(
    t: PipelineTables,
    stages: int,
    low: Ints,
    high: Ints,
    states: stage_labels.StageStates,
    labels: stage_labels.StageLabels,
) -> tuple[Ints, Ints, stage_labels.StageStates]:
    """Intervals that a state is left in, divided, and their states."""
    left = np.flatnonzero(labels.size)
    used = np.zeros(len(low), np.bool_)
    used[states.interval[left]] = True
    used[[0, -1]] = True
    size = np.where(used, np.minimum(high - low + 1, DIVISION), 0)
    parent = np.repeat(np.arange(len(low)), size)
    number = np.arange(len(parent)) - np.repeat(np.cumsum(size) - size, size)
    width, pieces = (high - low + 1)[parent], size[parent]
    first = low[parent] + width * number // pieces
    last = low[parent] + width * (number + 1) // pieces - 1
    begin = np.cumsum(size) - size
    each = size[states.interval[left]]
    owner = np.repeat(left, each)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(each) - each, each)
    rows = np.column_stack(
        [
            states.stage[owner],
            states.first[owner],
            begin[states.interval[owner]] + offset,
            states.end[owner],
        ]
    )
    behind = stage_labels.least_behind(labels)[owner]
    return first, last, _states(stages, t.speed.shape[0] - 1, rows, behind)


def _read_back(
    g: CutIntervals,
    states: stage_labels.StageStates,
    labels: stage_labels.StageLabels,
    state: int,
    label: int,
    t: PipelineTables,
) -> tuple[Ints, Ints]:
    """Cuts and device cuts with both ends: of each interval of a label the cheapest cut."""
    cuts, places = [0], [0]
    while True:
        places.append(int(states.end[state]))
        state, label = map(int, labels.links[label])
        if state < 0:
            break
        cuts.append(int(g.cheapest[states.interval[state]]))
    cuts.append(len(t.forward) - 1)
    return np.array(cuts, np.int64), np.array(places, np.int64)


def _settled(t: PipelineTables, parts: Ints, places: Ints, allowed: NDArray[np.bool_]) -> Pipeline:
    """A pipeline after passes of descent, until none makes it shorter."""
    if (np.diff(parts) <= 0).any():
        return pipeline_of(t, parts, places)
    length = float(length_s(t, parts, places))
    while True:
        shorter = float(descend(t, parts, places, allowed))
        if not shorter < length:
            return pipeline_of(t, parts, places)
        length = shorter


def least_memory(problem: PipelineProblem) -> float:
    """Bytes on the fullest device of the pipeline that needs least; infinite where none is valid.

    Takes O(parts^2 * devices^2) steps for about equal stages.
    """
    stages, parts, devices = problem.stages, problem.num_parts, problem.devices.num_devices
    if stages > min(parts, devices):
        return math.inf
    return float(_roomiest(pipeline_tables(problem), stages, problem.allowed_places)[2])


def roomiest_pipeline(
    t: PipelineTables, stages: int, allowed: NDArray[np.bool_]
) -> tuple[Ints, Ints] | None:
    """Cuts and device cuts with both ends of a pipeline that fits; None where none does."""
    cuts, places, most = _roomiest(t, stages, allowed)
    return (cuts, places) if most <= t.memory else None


@entry_njit
def _roomiest(
    t: PipelineTables, stages: int, allowed: NDArray[np.bool_]
) -> tuple[Ints, Ints, float]:
    parts, devices = len(t.forward) - 1, t.speed.shape[0] - 1
    # Bytes of the fullest device from stage k on, by its first part and device.
    least = np.full((stages + 1, parts + 1, devices + 1), np.inf)
    next_part = np.zeros((stages, parts + 1, devices + 1), np.int64)
    next_device = np.zeros((stages, parts + 1, devices + 1), np.int64)
    least[stages, parts, devices] = 0.0
    # The first part behind each cut at which a stage from there has weights.
    weighted = np.searchsorted(t.weights, t.weights, side="right")
    for k in range(stages - 1, -1, -1):
        left = stages - k
        for b in range(devices if left == 1 else k + 1, devices - left + 2):
            if left > 1 and not allowed[b]:
                continue
            for i in range(k, 1 if k == 0 else parts - left + 1):
                from_part = parts if left == 1 else max(i + 1, weighted[i])
                if weighted[i] > parts - left + 1:
                    continue
                for a in range(k, 1 if k == 0 else b):
                    for j in range(from_part, parts - left + 2):
                        rest = least[k + 1, j, b]
                        if rest >= least[k, i, a]:
                            continue
                        held = memory_bytes(t, i, j, a, b, left)
                        if held >= least[k, i, a]:
                            break
                        least[k, i, a] = max(held, rest)
                        next_part[k, i, a], next_device[k, i, a] = j, b
    cuts, places = np.zeros(stages + 1, np.int64), np.zeros(stages + 1, np.int64)
    for k in range(stages):
        cuts[k + 1] = next_part[k, cuts[k], places[k]]
        places[k + 1] = next_device[k, cuts[k], places[k]]
    return cuts, places, least[0, 0, 0]


def balanced(problem: PipelineProblem, tables: PipelineTables | None = None) -> Pipeline:
    """Stages of about as many devices, on whole servers where possible, and work to match."""
    t = tables or pipeline_tables(problem)
    return pipeline_of(t, *balanced_pipeline(t, problem.stages))


def descended(problem: PipelineProblem, tables: PipelineTables | None = None) -> Pipeline:
    """The balanced pipeline after one pass of coordinate descent."""
    t = tables or pipeline_tables(problem)
    parts, places = balanced_pipeline(t, problem.stages)
    descend(t, parts, places, problem.allowed_places)
    return pipeline_of(t, parts, places)


def pipeline_of(t: PipelineTables, parts: Ints, places: Ints) -> Pipeline:
    """The pipeline of cuts and device cuts with both ends, `[S + 1]` each."""
    cuts, devices = (tuple(int(cut) for cut in row[1:-1]) for row in (parts, places))
    return Pipeline(cuts, devices, float(length_s(t, parts, places)))
