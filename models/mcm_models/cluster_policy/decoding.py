"""How the policy sees clusters and devices, and decides: compiled, without JAX.

In the first round clusters get their devices in the order in which they begin; in the second each
is taken off its device and decided again, now that all others have one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.arrays.types import Bools, Floats, Ints
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
    """Decodes so many placements.

    Args:
        graph: what is placed.
        scorer: the policy.
        count: K.
        rng: of the draws.
        greedy: takes the likeliest device each time.
    """
    clusters, devices = graph.allowed.shape
    uniforms = rng.random((count, ROUNDS * clusters))
    if greedy:
        uniforms[:] = -1.0
    found = Decisions(
        np.full((count, clusters), -1, np.int32),
        np.zeros((count, ROUNDS * clusters, devices, NUM_COLUMNS), np.float32),
        np.empty((count, ROUNDS * clusters), np.int32),
    )
    for k in range(count):
        _decode(graph, scorer, uniforms[k], found.devices[k], found.seen[k], found.chosen[k])
    return found


def scores_given(graph: ClusterGraph, scorer: Scorer, devices: Ints, cluster: int) -> Floats:
    """`[D]`, probabilities of the devices of one cluster, given those of all others."""
    return _given(graph, scorer, devices.astype(np.int32), cluster)


class _Tally(NamedTuple):
    """What each device has so far.

    Attributes:
        sums: `[D, 5]`: seconds of work, bytes of variables and of other values, seconds of copies
            that leave the device, clusters.
        profile: `[D, BINS]`, seconds by depth.
    """

    sums: Floats
    profile: Floats


@njit(cache=True, nogil=True)
def _given(graph: ClusterGraph, scorer: Scorer, devices: Ints, cluster: int) -> Floats:
    clusters, count = graph.allowed.shape
    tally = _Tally(np.zeros((count, 5)), np.zeros((count, BINS)))
    placed = np.full(clusters, -1, np.int32)
    position = 0
    for i in range(clusters):
        c = int(graph.order[i])
        if c == cluster:
            position = i
        else:
            _put(graph, tally, placed, c, int(devices[c]), 1.0)
    columns = np.zeros((count, NUM_COLUMNS), np.float32)
    _see(graph, tally, placed, position, int(devices[cluster]), columns)
    return _probabilities(graph, scorer, cluster, columns)


@njit(cache=True, nogil=True)
def _decode(
    graph: ClusterGraph,
    scorer: Scorer,
    uniforms: Floats,
    devices: Ints,
    seen: Singles,
    chosen: Ints,
) -> None:
    clusters, count = graph.allowed.shape
    tally = _Tally(np.zeros((count, 5)), np.zeros((count, BINS)))
    for s in range(ROUNDS * clusters):
        c = int(graph.order[s % clusters])
        before = int(devices[c])
        if before >= 0:
            _put(graph, tally, devices, c, before, -1.0)
        _see(graph, tally, devices, s % clusters, before, seen[s])
        p = _probabilities(graph, scorer, c, seen[s])
        device = int(np.argmax(p))
        if uniforms[s] >= 0.0:
            total = 0.0
            for d in range(len(p)):
                if p[d] > 0.0:
                    total += p[d]
                    device = d
                    if uniforms[s] < total:
                        break
        _put(graph, tally, devices, c, device, 1.0)
        chosen[s] = device


@njit(cache=True, nogil=True)
def _put(graph: ClusterGraph, tally: _Tally, devices: Ints, c: int, d: int, sign: float) -> None:
    """Gives a cluster a device, or takes it off where `sign` is -1."""
    devices[c] = -1
    sums = tally.sums[d]
    sums[0] += sign * graph.work[c, d]
    sums[1] += sign * graph.held[c]
    sums[2] += sign * graph.made[c]
    sums[4] += sign
    for b in range(BINS):
        tally.profile[d, b] += sign * graph.profile[c, b]
    for j in range(len(devices)):
        e = devices[j]
        if e >= 0 and e != d:
            there = graph.sent[c, j] / graph.rate[d, e] + graph.copies[c, j] * graph.latency[d, e]
            back = graph.sent[j, c] / graph.rate[e, d] + graph.copies[j, c] * graph.latency[e, d]
            tally.sums[d, 3] += sign * there
            tally.sums[e, 3] += sign * back
    if sign > 0.0:
        devices[c] = d


@njit(cache=True, nogil=True)
def _see(
    graph: ClusterGraph, tally: _Tally, devices: Ints, position: int, before: int, columns: Singles
) -> None:
    """Columns of a cluster that has no device, for each device.

    Args:
        graph: of C clusters.
        tally: of those that have devices.
        devices: `[C]`, -1 for those without.
        position: of the cluster in the order.
        before: device that it has from the round before, or -1.
        columns: `[D, COLUMNS]`, written.
    """
    c = int(graph.order[position])
    last = int(devices[graph.order[position - 1]]) if position > 0 else -1
    unit = max(graph.ideal_s, graph.critical_s)
    count = len(tally.sums)
    links = np.zeros((count, 2))
    own_bytes, waiting = 0.0, 0.0
    for j in range(len(devices)):
        both = graph.sent[c, j] + graph.sent[j, c]
        own_bytes += both
        if devices[j] < 0:
            waiting += graph.fastest[j]
        else:
            links[devices[j], 0] += both
            links[devices[j], 1] += graph.copies[c, j] + graph.copies[j, c]
    everything = max(graph.fastest.sum(), 1e-12)
    for d in range(count):
        row, sums = columns[d], tally.sums[d]
        _see_work(graph, tally, c, d, row)
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


@njit(cache=True, nogil=True)
def _see_work(graph: ClusterGraph, tally: _Tally, c: int, d: int, row: Singles) -> None:
    """Columns of work on one device."""
    unit = max(graph.ideal_s, graph.critical_s)
    slot = unit / BINS
    work, fastest = graph.work[c, d], graph.fastest[c]
    most = 0.0
    for e in range(len(tally.sums)):
        if e != d:
            most = max(most, tally.sums[e, 0])
    total = tally.sums[d, 0] + work
    row[0] = work / unit
    row[1] = tally.sums[d, 0] / unit
    row[2] = max(0.0, total - graph.ideal_s) / unit
    row[3] = max(0.0, total - most) / unit
    slower = work / fastest if fastest > 0.0 else 1.0
    crowded = 0.0
    for b in range(BINS):
        with_it = tally.profile[d, b] + slower * graph.profile[c, b]
        crowded += max(0.0, with_it - slot) - max(0.0, tally.profile[d, b] - slot)
    row[4] = crowded / unit
    row[13] = fastest / work if work > 0.0 else 1.0


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _probabilities(graph: ClusterGraph, scorer: Scorer, c: int, columns: Singles) -> Floats:
    """Softmax of the scores over the devices that the cluster may have."""
    one = np.maximum(columns @ scorer.first + scorer.first_bias, np.float32(0.0))
    two = np.maximum(one @ scorer.second + scorer.second_bias, np.float32(0.0))
    scores = (columns @ scorer.linear + two @ scorer.score)[:, 0]
    p = np.zeros(len(scores))
    most = -np.inf
    for d in range(len(scores)):
        if graph.allowed[c, d]:
            most = max(most, np.float64(scores[d]))
    total = 0.0
    for d in range(len(scores)):
        if graph.allowed[c, d]:
            p[d] = np.exp(np.float64(scores[d]) - most)
            total += p[d]
    return p / total
