"""How the policy sees clusters and devices, and decides: compiled, without JAX.

In the first round clusters get their devices in the order in which they begin; in the second each
is taken off its device and decided again, now that all others have one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import lean_inner_njit, lean_njit
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_models.cluster_policy.cluster_graph import BINS, ClusterGraph
from mcm_models.cluster_policy.layout import COLUMNS, Weights

Singles = npt.NDArray[np.float32]

NUM_COLUMNS = len(COLUMNS)

ROUNDS = 2


class Scorer(NamedTuple):
    """Weights of `ClusterLayout`, as kernels read them."""

    first: Singles
    first_bias: Singles
    second: Singles
    second_bias: Singles
    linear: Singles
    score: Singles


class Decisions(NamedTuple):
    """K decodings of one graph; S is twice the number of clusters.

    Attributes:
        devices: `[K, C]`, after both rounds.
        seen: `[K, S, D, COLUMNS]`.
        chosen: `[K, S]`.
    """

    devices: Ints
    seen: Singles
    chosen: Ints


def scorer_of(weights: Weights) -> Scorer:
    """Weights by name as kernels read them."""
    return Scorer(
        **{name: np.ascontiguousarray(weights[name], np.float32) for name in Scorer._fields}
    )


def decode(
    graph: ClusterGraph, scorer: Scorer, count: int, rng: np.random.Generator, greedy: bool = False
) -> Decisions:
    """Decodes this many placements.

    Args:
        graph: what is placed.
        scorer: the policy.
        count: K.
        rng: of the draws.
        greedy: takes the likeliest device each time.
    """
    clusters, devices = graph.allowed.shape
    steps = ROUNDS * clusters
    uniforms = rng.random((count, steps))
    if greedy:
        uniforms[:] = -1.0
    found = Decisions(
        np.full((count, clusters), -1, np.int32),
        np.zeros((count, steps, devices, NUM_COLUMNS), np.float32),
        np.empty((count, steps), np.int32),
    )
    positions = np.tile(np.arange(clusters), ROUNDS)
    for k in range(count):
        room = _room(graph, scorer)
        placed, seen, chosen = found.devices[k], found.seen[k], found.chosen[k]
        _decode(graph, scorer, room, (positions, uniforms[k]), placed, seen, chosen)
    return found


class _Room(NamedTuple):
    """Load of each device so far, and space to work in.

    Attributes:
        sums: `[D, 5]`: seconds of work, bytes of variables and of other values, seconds of copies
            that leave the device, clusters.
        profile: `[D, BINS]`, seconds by depth.
        links: `[D, 2]`, bytes and values that the cluster at hand exchanges with each device.
        hidden: `[width]`.
        scores: `[D]`, probabilities of the last decision.
    """

    sums: Floats
    profile: Floats
    links: Floats
    hidden: Floats
    scores: Floats


def _room(graph: ClusterGraph, scorer: Scorer) -> _Room:
    count = graph.allowed.shape[1]
    return _Room(
        np.zeros((count, 5)),
        np.zeros((count, BINS)),
        np.zeros((count, 2)),
        np.zeros(len(scorer.first_bias)),
        np.zeros(count),
    )


@lean_njit
def _decode(
    graph: ClusterGraph,
    scorer: Scorer,
    room: _Room,
    choices: tuple[Longs, Floats],
    devices: Ints,
    seen: Singles,
    chosen: Ints,
) -> None:
    """Decides one cluster after another.

    Args:
        graph: of C clusters.
        scorer: the policy.
        room: empty.
        choices: per step the place of the cluster in the order, and a uniform number from 0 up to
            1, or less for the likeliest device.
        devices: `[C]`, written.
        seen: `[S, D, COLUMNS]`, written.
        chosen: `[S]`, written.
    """
    positions, uniforms = choices
    for s in range(len(positions)):
        c = int(graph.order[positions[s]])
        before = int(devices[c])
        if before >= 0:
            _put(graph, room, devices, c, before, -1.0)
        _see(graph, room, devices, int(positions[s]), before, seen[s])
        _score(graph, scorer, room, c, seen[s])
        device = _drawn(room.scores, float(uniforms[s]))
        _put(graph, room, devices, c, device, 1.0)
        chosen[s] = device


@lean_inner_njit
def _drawn(p: Floats, uniform: float) -> int:
    device = 0
    if uniform < 0.0:
        for d in range(1, len(p)):
            if p[d] > p[device]:
                device = d
        return device
    total = 0.0
    for d in range(len(p)):
        if p[d] > 0.0:
            total += p[d]
            device = d
            if uniform < total:
                break
    return device


@lean_inner_njit
def _put(graph: ClusterGraph, room: _Room, devices: Ints, c: int, d: int, sign: float) -> None:
    """Gives a cluster a device, or takes it off where `sign` is -1."""
    devices[c] = -1
    sums = room.sums[d]
    sums[0] += sign * graph.work[c, d]
    sums[1] += sign * graph.held[c]
    sums[2] += sign * graph.made[c]
    sums[4] += sign
    for b in range(BINS):
        room.profile[d, b] += sign * graph.profile[c, b]
    for j in range(len(devices)):
        e = devices[j]
        if e >= 0 and e != d:
            there = graph.sent[c, j] / graph.rate[d, e] + graph.copies[c, j] * graph.latency[d, e]
            back = graph.sent[j, c] / graph.rate[e, d] + graph.copies[j, c] * graph.latency[e, d]
            room.sums[d, 3] += sign * there
            room.sums[e, 3] += sign * back
    if sign > 0.0:
        devices[c] = d


@lean_inner_njit
def _see(
    graph: ClusterGraph, room: _Room, devices: Ints, position: int, before: int, columns: Singles
) -> None:
    """Columns of a cluster that has no device, for each device.

    Args:
        graph: of C clusters.
        room: of those that have devices.
        devices: `[C]`, -1 for those without.
        position: of the cluster in the order.
        before: device that it has from the round before, or -1.
        columns: `[D, COLUMNS]`, written.
    """
    c = int(graph.order[position])
    last = int(devices[graph.order[position - 1]]) if position > 0 else -1
    unit = max(graph.ideal_s, graph.critical_s)
    count = len(room.sums)
    links = room.links
    for d in range(count):
        links[d, 0] = 0.0
        links[d, 1] = 0.0
    own_bytes, waiting = 0.0, 0.0
    for j in range(len(devices)):
        both = graph.sent[c, j] + graph.sent[j, c]
        own_bytes += both
        if devices[j] < 0:
            waiting += graph.fastest[j]
        else:
            links[devices[j], 0] += both
            links[devices[j], 1] += graph.copies[c, j] + graph.copies[j, c]
    everything = 1e-12
    for j in range(len(devices)):
        everything += graph.fastest[j]
    for d in range(count):
        row, sums = columns[d], room.sums[d]
        _see_work(graph, room, c, d, row)
        row[6] = links[d, 0] / own_bytes if own_bytes > 0.0 else 0.0
        moved = 0.0
        for e in range(count):
            if e != d:
                moved += links[e, 0] / graph.rate[d, e] + links[e, 1] * graph.latency[d, e]
        row[7] = moved / unit
        row[9] = sums[3] / unit
        row[10] = (sums[1] + graph.held[c]) / graph.memory[d]
        row[11] = np.log1p((sums[2] + graph.made[c]) / graph.memory[d])
        row[12] = max(0.0, row[10] - np.float32(0.8))
        row[14] = 1.0 if sums[4] < 0.5 else 0.0
        row[15] = 1.0 if d == last else 0.0
        row[16] = 1.0 if before >= 0 else 0.0
        row[17] = 1.0 if d == before else 0.0
        row[18] = graph.ideal_s / unit
        row[19] = np.log1p(graph.copies_s / unit)
        row[20] = 1.0 / count
        row[21] = graph.fastest[c] / everything
        row[22] = waiting / everything
        row[23] = np.log(len(devices)) / 5.0
    _see_differences(graph.allowed[c], columns)


@lean_inner_njit
def _see_work(graph: ClusterGraph, room: _Room, c: int, d: int, row: Singles) -> None:
    """Columns of work on one device."""
    unit = max(graph.ideal_s, graph.critical_s)
    slot = unit / BINS
    work, fastest = graph.work[c, d], graph.fastest[c]
    most = 0.0
    for e in range(len(room.sums)):
        if e != d:
            most = max(most, room.sums[e, 0])
    total = room.sums[d, 0] + work
    row[0] = work / unit
    row[1] = room.sums[d, 0] / unit
    row[2] = max(0.0, total - graph.ideal_s) / unit
    row[3] = max(0.0, total - most) / unit
    slower = work / fastest if fastest > 0.0 else 1.0
    crowded = 0.0
    for b in range(BINS):
        with_it = room.profile[d, b] + slower * graph.profile[c, b]
        crowded += max(0.0, with_it - slot) - max(0.0, room.profile[d, b] - slot)
    row[4] = crowded / unit
    row[13] = fastest / work if work > 0.0 else 1.0


@lean_inner_njit
def _see_differences(allowed: Bools, columns: Singles) -> None:
    """Columns that compare with the best device, and a limit of all."""
    for column in (4, 7):
        best = np.float32(np.inf)
        for d in range(len(columns)):
            if allowed[d]:
                best = min(best, columns[d, column])
        for d in range(len(columns)):
            columns[d, column + 1] = columns[d, column] - best
    for d in range(len(columns)):
        for column in range(NUM_COLUMNS):
            columns[d, column] = min(columns[d, column], np.float32(8.0))


@lean_inner_njit
def _score(graph: ClusterGraph, scorer: Scorer, room: _Room, c: int, columns: Singles) -> None:
    """Softmax of the scores over the devices that the cluster may have, to `room.scores`."""
    count, width = len(columns), len(scorer.first_bias)
    scores, one = room.scores, room.hidden
    for d in range(count):
        scores[d] = 0.0
        if not graph.allowed[c, d]:
            continue
        for i in range(NUM_COLUMNS):
            scores[d] += columns[d, i] * scorer.linear[i, 0]
        for h in range(width):
            one[h] = scorer.first_bias[h]
        for i in range(NUM_COLUMNS):
            for h in range(width):
                one[h] += columns[d, i] * scorer.first[i, h]
        for h in range(width):
            two = np.float64(scorer.second_bias[h])
            for i in range(width):
                two += max(0.0, one[i]) * scorer.second[i, h]
            scores[d] += max(0.0, two) * scorer.score[h, 0]
    most = -np.inf
    for d in range(count):
        if graph.allowed[c, d]:
            most = max(most, scores[d])
    total = 0.0
    for d in range(count):
        scores[d] = np.exp(scores[d] - most) if graph.allowed[c, d] else 0.0
        total += scores[d]
    for d in range(count):
        scores[d] /= total
