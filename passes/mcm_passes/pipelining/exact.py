"""The best pipeline, by dynamic programming over labels.

A state is a stage with its first part and its device range; it has one label for every way to go
on to the end that no other way dominates. A label holds the longest slot so far, the sum of times,
and the sum with the reduction of gradients: the length of an iteration is monotone in each, so
that dropping dominated labels is exact. Labels whose length cannot fall below that of a known
pipeline are dropped too.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mcm_models.pipelines.kernels import (
    backward_s,
    fits,
    forward_s,
    memory_bytes,
    reduction_s,
    transfer_s,
)
from mcm_models.pipelines.problem import Floats, Pipeline, PipelineProblem
from mcm_models.pipelines.tables import PipelineTables, pipeline_tables
from mcm_passes.pipelining.baselines import descended

Ints = NDArray[np.int64]

FIRST_SLACK, SLACK_GROWTH = 0.02, 4.0
"""The search first looks at most so far above the lower bound, and that much further each time."""

_TOLERANCE = 1e-12
"""Relative; labels that equal the known pipeline must survive rounding."""


def best_pipeline(problem: PipelineProblem) -> Pipeline | None:
    """The pipeline with the shortest iteration, or None if none fits into memory.

    Exact for the formula of `mcm_models.pipelines.length`. Takes
    O(stages * parts^2 * devices^3) steps at most times the labels of a state; in practice bounds
    leave few of them.
    """
    stages, parts, devices = problem.stages, problem.num_parts, problem.devices.num_devices
    if stages > min(parts, devices) or least_memory(problem) > problem.devices.memory_bytes:
        return None
    tables = pipeline_tables(problem)
    known = descended(problem, tables).length_s * (1.0 + _TOLERANCE)
    bound = float(
        (tables.forward[-1] + tables.backward[-1]) * tables.micro_batches / tables.speed[0, -1]
    )
    slack = FIRST_SLACK
    while True:
        limit = min(known, bound * (1.0 + slack))
        cuts, places, length = _search(tables, stages, limit)
        if np.isfinite(length):
            return Pipeline(tuple(map(int, cuts)), tuple(map(int, places)), float(length))
        if limit == known:
            return None
        slack *= SLACK_GROWTH


def least_memory(problem: PipelineProblem) -> float:
    """Bytes on the fullest device of the pipeline that needs least; infinite where none is valid.

    By dynamic programming over the stages from the last to the first.
    """
    stages, parts, devices = problem.stages, problem.num_parts, problem.devices.num_devices
    if stages > min(parts, devices):
        return math.inf
    return float(_least_memory(pipeline_tables(problem), stages))


@njit(cache=True)
def _least_memory(t: PipelineTables, stages: int) -> float:
    parts, devices = len(t.forward) - 1, t.speed.shape[0] - 1
    least = np.full((parts + 1, devices + 1), np.inf)
    least[parts, devices] = 0.0
    for k in range(stages - 1, -1, -1):
        left = stages - k
        before = least.copy()
        least[:] = np.inf
        for i in range(k, 1 if k == 0 else parts - left + 1):
            for a in range(k, 1 if k == 0 else devices - left + 1):
                for b in range(devices if left == 1 else a + 1, devices - left + 2):
                    for j in range(parts if left == 1 else i + 1, parts - left + 2):
                        if t.weights[j] - t.weights[i] <= 0.0:
                            continue
                        bytes_of_stage = memory_bytes(t, i, j, a, b, left)
                        if bytes_of_stage >= least[i, a]:
                            break
                        least[i, a] = min(least[i, a], max(bytes_of_stage, before[j, b]))
    return least[0, 0]


@njit(cache=True)
def _prefix_bounds(t: PipelineTables, stages: int, limit: float) -> tuple[Floats, Floats]:
    """`[S, parts, D]` each: least longest slot, and least time forward, of the stages before k.

    Part i and device a are the first of stage k; infinite where no stages before it fit into
    memory. Transfers are left out, so that these are lower bounds.
    """
    parts, devices = len(t.forward) - 1, t.speed.shape[0] - 1
    repeats = t.micro_batches - 1.0
    slots = np.full((stages, parts, devices), np.inf)
    aheads = np.full((stages, parts, devices), np.inf)
    slots[0, 0, 0] = aheads[0, 0, 0] = 0.0
    for k in range(stages - 1):
        left = stages - k
        for i in range(k, 1 if k == 0 else parts - left + 1):
            for a in range(k, 1 if k == 0 else devices - left + 1):
                if slots[k, i, a] == np.inf:
                    continue
                for b in range(a + 1, devices - left + 2):
                    for j in range(i + 1, parts - left + 2):
                        if not fits(t, i, j, a, b, left):
                            if t.weights[j] - t.weights[i] > 0.0:
                                break
                            continue
                        ahead = forward_s(t, i, j, a, b)
                        slot = ahead + backward_s(t, i, j, a, b)
                        if repeats * slot > limit:
                            break
                        longest = max(slots[k, i, a], slot)
                        slots[k + 1, j, b] = min(slots[k + 1, j, b], longest)
                        total = aheads[k, i, a] + ahead
                        aheads[k + 1, j, b] = min(aheads[k + 1, j, b], total)
    return slots, aheads


@njit(cache=True)
def _search(t: PipelineTables, stages: int, limit: float) -> tuple[Ints, Ints, float]:
    """Cuts, device cuts and length of the best pipeline of at most `limit` seconds."""
    parts, devices = len(t.forward) - 1, t.speed.shape[0] - 1
    repeats = t.micro_batches - 1.0
    # Labels of all stages in one store: slot forward (or both), slot backward, sum, sum with end.
    store = np.empty((1 << 14, 4))
    links = np.empty((1 << 14, 3), np.int64)
    used = 0
    first = np.zeros((stages, parts, devices, devices + 1), np.int64)
    count = np.zeros((stages, parts, devices, devices + 1), np.int64)
    front = np.empty((1 << 12, 4))
    front_links = np.empty((1 << 12, 3), np.int64)
    whole = t.forward[parts] + t.backward[parts]
    slots, aheads = _prefix_bounds(t, stages, limit)
    for k in range(stages - 1, -1, -1):
        left = stages - k
        last = k == stages - 1
        for i in range(k, 1 if k == 0 else parts - left + 1):
            for a in range(k, 1 if k == 0 else devices - left + 1):
                slot_before, ahead_before = slots[k, i, a], aheads[k, i, a]
                if repeats * slot_before + ahead_before > limit:
                    continue
                for b in range(devices if last else a + 1, devices - left + 2):
                    size = 0
                    for j in range(parts if last else i + 1, parts - left + 2):
                        if not fits(t, i, j, a, b, left):
                            if t.weights[j] - t.weights[i] > 0.0:
                                break
                            continue
                        ahead, back = forward_s(t, i, j, a, b), backward_s(t, i, j, a, b)
                        if repeats * (ahead + back) > limit * (1.0 + 1e-9):
                            break
                        reduced = reduction_s(t, i, j, a, b)
                        if last:
                            x, y = (ahead, back) if t.gpipe > 0.0 else (ahead + back, 0.0)
                            label = (x, y, ahead + back, ahead + back + reduced)
                            size = _offer(front, front_links, 0, label, (j, devices, -1))
                            continue
                        rest = whole - t.forward[j] - t.backward[j]
                        if repeats * rest / t.speed[b, devices] > limit:
                            continue
                        for c in range(devices if k == stages - 2 else b + 1, devices - left + 3):
                            if count[k + 1, j, b, c] == 0:
                                continue
                            over = transfer_s(t, j, a, b, c)
                            over_back = over * t.both_ways
                            base = first[k + 1, j, b, c]
                            for e in range(base, base + count[k + 1, j, b, c]):
                                total = ahead + back + over + over_back + store[e, 2]
                                ending = max(total + reduced, ahead + over + store[e, 3])
                                if t.gpipe > 0.0:
                                    x = max(ahead, over, store[e, 0])
                                    y = max(back, over_back, store[e, 1])
                                else:
                                    x = max(ahead + back, over + over_back, store[e, 0])
                                    y = 0.0
                                slot = max(x + y, slot_before)
                                if repeats * slot + ending + ahead_before > limit:
                                    continue
                                if size == len(front):
                                    front, front_links = _grown(front, front_links)
                                label = (x, y, total, ending)
                                size = _offer(front, front_links, size, label, (j, c, e))
                    if size == 0:
                        continue
                    while used + size > len(store):
                        store, links = _grown(store, links)
                    store[used : used + size] = front[:size]
                    links[used : used + size] = front_links[:size]
                    first[k, i, a, b] = used
                    count[k, i, a, b] = size
                    used += size
    return _read_back(store, links, first, count, stages, repeats)


@njit(cache=True)
def _offer(
    front: Floats,
    links: Ints,
    size: int,
    label: tuple[float, float, float, float],
    link: tuple[int, int, int],
) -> int:
    """Adds a label to a front unless one of it is as good; drops those that it is as good as."""
    kept = 0
    for e in range(size):
        better = worse = True
        for field in range(4):
            better = better and front[e, field] <= label[field]
            worse = worse and front[e, field] >= label[field]
        if better:
            return size
        if not worse:
            if kept < e:
                front[kept] = front[e]
                links[kept] = links[e]
            kept += 1
    for field in range(4):
        front[kept, field] = label[field]
    for field in range(3):
        links[kept, field] = link[field]
    return kept + 1


@njit(cache=True)
def _grown(labels: Floats, links: Ints) -> tuple[Floats, Ints]:
    size = len(labels)
    more, more_links = np.empty((2 * size, 4)), np.empty((2 * size, 3), np.int64)
    more[:size] = labels
    more_links[:size] = links
    return more, more_links


@njit(cache=True)
def _read_back(
    store: Floats, links: Ints, first: Ints, count: Ints, stages: int, repeats: float
) -> tuple[Ints, Ints, float]:
    """The pipeline of the best label of the first stage."""
    best, label, second = np.inf, -1, 0
    for b in range(count.shape[3]):
        for e in range(first[0, 0, 0, b], first[0, 0, 0, b] + count[0, 0, 0, b]):
            length = repeats * (store[e, 0] + store[e, 1]) + store[e, 3]
            if length < best:
                best, label, second = length, e, b
    cuts, places = np.empty(stages - 1, np.int64), np.empty(stages - 1, np.int64)
    for k in range(stages - 1):
        if label < 0:
            break
        cuts[k], places[k] = links[label, 0], second
        second, label = links[label, 1], links[label, 2]
    return cuts, places, best
