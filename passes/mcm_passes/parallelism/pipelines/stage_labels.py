"""Dynamic programming over the stages of pipelines whose cuts lie in intervals.

A state is a stage with the interval of its first cut and its devices. What is before a state is
bounded by numbers of their own, each the least of all ways that lead there:

    slot      longest time of a micro-batch on a stage or transfer so far
    ahead     seconds forward until a micro-batch arrives
    settled   seconds until what is before would be done, without what is behind

What is behind has labels: slot, sum of seconds, and the sum with the reductions of gradients
(`ending`). With M micro-batches no pipeline through the state is shorter than

    (M - 1) max(slot, slot') + max(ahead + ending', settled + sum')

which never falls with any of the numbers, so that dropping dominated labels loses nothing. Where
all intervals hold one cut, a label of the first stage is the length of a pipeline.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit, inner_njit
from mcm_models.pipelines.problem import Floats, PipelineTables
from mcm_passes.parallelism.pipelines.cut_intervals import (
    CutIntervals,
    StageBound,
    stage_bound,
    transfer_bound,
)

Ints = NDArray[np.int64]

Numbers = tuple[float, float, float, float]
"""Sums before a state, or behind it: both slots, and two sums of seconds."""


class StageStates(NamedTuple):
    """n states, by stage, first device, interval and last device.

    Attributes:
        stage: `[n]`.
        first: `[n]`, first device.
        interval: `[n]`, of its first cut.
        end: `[n]`, device behind its last.
        behind: `[n, 4]`, at least what the labels of the state hold, from coarser intervals.
        begin: `[stages * devices + 1]`, where the states of each stage and first device begin.
    """

    stage: Ints
    first: Ints
    interval: Ints
    end: Ints
    behind: Floats
    begin: Ints


class StageLabels(NamedTuple):
    """Labels of states, and how they go on.

    Attributes:
        size: `[n]`, labels of each state.
        start: `[n]`, where they begin.
        values: `[m, 4]`: slot forward (or of both ways), slot backward, sum, ending.
        links: `[m, 2]`, the state of the next stage and its label; -1 for the last stage.
    """

    size: Ints
    start: Ints
    values: Floats
    links: Ints


class _Front(NamedTuple):
    """Space for the labels of one state, none of which is as good as another.

    Attributes:
        values: as in `StageLabels`.
        links: as there.
    """

    values: Floats
    links: Ints


@entry_njit
def bounds_before(t: PipelineTables, g: CutIntervals, s: StageStates, limit: float) -> Floats:
    """`[n, 4]`: slot forward (or of both ways), slot backward, ahead and settled of each state.

    Infinite where no pipeline of at most `limit` seconds leads to the state.
    """
    devices, size = t.speed.shape[0] - 1, len(s.stage)
    repeats = t.micro_batches - 1.0
    stages = (len(s.begin) - 1) // devices
    found = np.full((size, 4), np.inf)
    for e in range(size):
        k, a, i, b = s.stage[e], s.first[e], s.interval[e], s.end[e]
        if k == 0:
            found[e] = 0.0
        x, y, ahead, settled = found[e]
        if x == np.inf or k == stages - 1:
            continue
        rest = s.behind[e]
        if _least(repeats, (x, y, ahead, settled), (rest[0], rest[1], rest[2], rest[3])) > limit:
            found[e] = np.inf
            continue
        j = -1
        stage = stage_bound(t, g, i, i, a, b, stages - k)
        for n in range(_first_from(s, devices, k + 1, b, i), s.begin[(k + 1) * devices + b + 1]):
            if s.interval[n] != j:
                j = s.interval[n]
                stage = stage_bound(t, g, i, j, a, b, stages - k)
                if not stage.fits:
                    break
                if repeats * (stage.forward + stage.backward) > limit:
                    break
            if not stage.valid:
                continue
            over = transfer_bound(t, g, j, a, b, s.end[n])
            back = over * t.both_ways
            passed = stage.forward + stage.backward + over + back
            if t.gpipe > 0.0:
                u = max(x, stage.forward, over)
                v = max(y, stage.backward, back)
            else:
                u = max(x, stage.forward + stage.backward, over + back)
                v = 0.0
            arrives = ahead + stage.forward + over
            done = max(settled, ahead + stage.reduction) + passed
            rest = s.behind[n]
            if _least(repeats, (u, v, arrives, done), (rest[0], rest[1], rest[2], rest[3])) > limit:
                continue
            found[n, 0] = min(found[n, 0], u)
            found[n, 1] = min(found[n, 1], v)
            found[n, 2] = min(found[n, 2], arrives)
            found[n, 3] = min(found[n, 3], done)
    return found


@entry_njit
def labels_behind(
    t: PipelineTables, g: CutIntervals, s: StageStates, before: Floats, limit: float
) -> StageLabels:
    """Labels of all states that a pipeline of at most `limit` seconds may go through.

    Args:
        t: the tables.
        g: the intervals.
        s: the states.
        before: see `bounds_before`.
        limit: seconds.
    """
    devices, size, last = t.speed.shape[0] - 1, len(s.stage), len(g.low) - 1
    repeats = t.micro_batches - 1.0
    stages = (len(s.begin) - 1) // devices
    values, links = np.empty((1 << 12, 4)), np.empty((1 << 12, 2), np.int64)
    front = _Front(np.empty((1 << 8, 4)), np.empty((1 << 8, 2), np.int64))
    used = 0
    count, start = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for e in range(size - 1, -1, -1):
        x0, y0, ahead, settled = before[e]
        if x0 == np.inf:
            continue
        come = (x0, y0, ahead, settled)
        filled = 0
        if s.stage[e] == stages - 1:
            stage = stage_bound(t, g, s.interval[e], last, s.first[e], s.end[e], 1)
            if stage.fits and stage.valid:
                label = _label_of_last(t, stage)
                if _least(repeats, come, label) <= limit:
                    filled = _offer(front.values, front.links, 0, label, (-1, -1))
        else:
            known = StageLabels(count, start, values, links)
            filled, front = _labels_through(t, g, s, known, e, come, limit, front)
        while used + filled > len(values):
            values, links = _grown(values, links)
        values[used : used + filled] = front.values[:filled]
        links[used : used + filled] = front.links[:filled]
        count[e], start[e] = filled, used
        used += filled
    return StageLabels(count, start, values[:used], links[:used])


@inner_njit
def _label_of_last(t: PipelineTables, stage: StageBound) -> Numbers:
    """The label of a last stage."""
    x, y, both = stage.forward, stage.backward, stage.forward + stage.backward
    if t.gpipe == 0.0:
        x, y = both, 0.0
    return x, y, both, both + stage.reduction


@inner_njit
def _labels_through(
    t: PipelineTables,
    g: CutIntervals,
    s: StageStates,
    known: StageLabels,
    e: int,
    come: Numbers,
    limit: float,
    front: _Front,
) -> tuple[int, _Front]:
    """The labels of a state that go on through those of the next stage.

    Args:
        t: the tables.
        g: the intervals.
        s: the states.
        known: labels of the states of later stages.
        e: the state.
        come: what is before it, see `bounds_before`.
        limit: seconds.
        front: to be filled.

    Returns:
        How many labels there are, and the front with them, which may have grown.
    """
    devices = t.speed.shape[0] - 1
    repeats = t.micro_batches - 1.0
    stages = (len(s.begin) - 1) // devices
    k, a, i, b = s.stage[e], s.first[e], s.interval[e], s.end[e]
    values, links = front.values, front.links
    filled = 0
    j = -1
    stage = stage_bound(t, g, i, i, a, b, stages - k)
    for n in range(_first_from(s, devices, k + 1, b, i), s.begin[(k + 1) * devices + b + 1]):
        if s.interval[n] != j:
            j = s.interval[n]
            stage = stage_bound(t, g, i, j, a, b, stages - k)
            if not stage.fits:
                break
            if repeats * (stage.forward + stage.backward) > limit:
                break
        if known.size[n] == 0 or not stage.valid:
            continue
        over = transfer_bound(t, g, j, a, b, s.end[n])
        back = over * t.both_ways
        passed = stage.forward + stage.backward + over + back
        if t.gpipe > 0.0:
            u, v = max(stage.forward, over), max(stage.backward, back)
        else:
            u, v = max(stage.forward + stage.backward, over + back), 0.0
        for m in range(known.start[n], known.start[n] + known.size[n]):
            x, y = max(u, known.values[m, 0]), max(v, known.values[m, 1])
            total = passed + known.values[m, 2]
            ending = max(total + stage.reduction, stage.forward + over + known.values[m, 3])
            if _least(repeats, come, (x, y, total, ending)) > limit:
                continue
            if filled == len(values):
                values, links = _grown(values, links)
            # A slot that lies below the least one before the state is hidden by it.
            label = (max(x, come[0]), max(y, come[1]), total, ending)
            filled = _offer(values, links, filled, label, (n, m))
    return filled, _Front(values, links)


def least_label(s: StageStates, labels: StageLabels, repeats: float) -> tuple[float, int, int]:
    """The shortest length of the labels of first stages, its state and its label; -1 for none."""
    # Labels of later states come first.
    state = np.repeat(np.arange(len(s.stage))[::-1], labels.size[::-1])
    length = repeats * (labels.values[:, 0] + labels.values[:, 1]) + labels.values[:, 3]
    length[s.stage[state] > 0] = np.inf
    shortest = np.flatnonzero(length == length.min(initial=np.inf))
    if not len(shortest) or length[shortest[0]] == np.inf:
        return np.inf, -1, -1
    label = int(shortest[np.argmin(state[shortest])])
    return float(length[label]), int(state[label]), label


def least_behind(labels: StageLabels) -> Floats:
    """`[n, 4]`, the least of each number over the labels of each state."""
    found = np.full((len(labels.size), 4), np.inf)
    left = np.flatnonzero(labels.size)[::-1]
    if len(left):
        found[left] = np.minimum.reduceat(labels.values, labels.start[left])
    return found


@expanded_njit
def _least(repeats: float, before: Numbers, behind: Numbers) -> float:
    """The bound of the module, of what is before a state and what is behind.

    Args:
        repeats: M - 1.
        before: both slots, ahead and settled.
        behind: both slots, sum and ending.
    """
    x0, y0, ahead, settled = before
    x, y, total, ending = behind
    return repeats * (max(x0, x) + max(y0, y)) + max(ahead + ending, settled + total)


@inner_njit
def _first_from(s: StageStates, devices: int, stage: int, first: int, interval: int) -> int:
    """The first state of a stage on a first device whose interval is not before the given one."""
    low, high = s.begin[stage * devices + first], s.begin[stage * devices + first + 1]
    while low < high:
        middle = (low + high) // 2
        if s.interval[middle] < interval:
            low = middle + 1
        else:
            high = middle
    return low


@inner_njit
def _offer(front: Floats, links: Ints, size: int, label: Numbers, link: tuple[int, int]) -> int:
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
    links[kept, 0], links[kept, 1] = link
    return kept + 1


@inner_njit
def _grown(labels: Floats, links: Ints) -> tuple[Floats, Ints]:
    size = len(labels)
    more, more_links = np.empty((2 * size, 4)), np.empty((2 * size, 2), np.int64)
    more[:size] = labels
    more_links[:size] = links
    return more, more_links
