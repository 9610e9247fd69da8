"""Clusters of ops as a graph: what they take, hold and send each other, and when they run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem

BINS = 16
"""Parts of the critical path in which work is counted."""


class ClusterGraph(NamedTuple):
    """C clusters on D devices.

    Attributes:
        order: `[C]`, clusters in the order in which they begin: by the depth before which a tenth
            of their work is. Of a training step the first tenth is part of the forward pass.
        work: `[C, D]`, seconds of the ops that may run on a device.
        allowed: `[C, D]`, devices on which any of its work may run.
        fastest: `[C]`, the least of the work over those.
        profile: `[C, BINS]`, seconds on the fastest kind by depth in the graph.
        held: `[C]`, bytes of variables.
        made: `[C]`, bytes of all other values.
        sent: `[C, C]`, bytes that one sends the other, each value once.
        copies: `[C, C]`, values that one sends the other.
        memory: `[D]`, bytes.
        rate: `[D, D]`, bytes per second.
        latency: `[D, D]`, seconds.
        ideal_s: all work on the fastest kind, over the devices of that kind.
        critical_s: longest path on the fastest kind.
        copies_s: all bytes that clusters send each other, at the slowest rate.
    """

    order: Ints
    work: Floats
    allowed: Bools
    fastest: Floats
    profile: Floats
    held: Floats
    made: Floats
    sent: Floats
    copies: Floats
    memory: Floats
    rate: Floats
    latency: Floats
    ideal_s: float
    critical_s: float
    copies_s: float


def cluster_graph(problem: StepProblem, box: Box, label: Ints) -> ClusterGraph:
    """The graph of clusters.

    Args:
        problem: N ops.
        box: D devices.
        label: `[N]`, cluster of each op, numbers from 0 without gaps.
    """
    count, devices = int(label.max(initial=-1)) + 1, box.num_devices
    times = np.where(problem.allowed, problem.time_s[:, box.kind_of], 0.0)
    work = np.stack([_sums(label, times[:, d], count) for d in range(devices)], axis=1)
    may = np.zeros((count, devices), np.bool_)
    for d in range(devices):
        may[label[problem.allowed[:, d] & (times[:, d] > 0.0)], d] = True
    may[~may.any(axis=1)] = True
    fastest = np.where(problem.allowed, problem.time_s[:, box.kind_of], np.inf).min(axis=1)
    edges = np.ascontiguousarray(problem.edges[np.argsort(problem.edges[:, 1], kind="stable")])
    begin = _depths(edges, fastest)
    critical = float((begin + fastest).max(initial=0.0)) or 1e-9
    bins = np.minimum((begin / critical * BINS).astype(np.int64), BINS - 1)
    profile = _sums(label * BINS + bins, fastest, count * BINS).reshape(count, BINS)
    own = (problem.producer >= 0) & (problem.view_of < 0)
    where = label[problem.producer[own]]
    size, stays = problem.value_bytes[own].astype(np.float64), problem.stays[own]
    sent, copies = _sent(problem, label, count)
    quick = times.sum(axis=0)
    same = np.flatnonzero(quick <= quick.min() * 1.01)
    return ClusterGraph(
        order=_order(begin, fastest, label, count),
        work=work,
        allowed=may,
        fastest=np.where(may, work, np.inf).min(axis=1),
        profile=profile,
        held=_sums(where, size * stays, count),
        made=_sums(where, size * ~stays, count),
        sent=sent,
        copies=copies,
        memory=box.memory_bytes.astype(np.float64),
        rate=box.copy_bytes_per_s.copy(),
        latency=box.copy_latency_s.copy(),
        ideal_s=max(float(fastest.sum()) / len(same), 1e-9),
        critical_s=critical,
        copies_s=float(sent.sum() / box.copy_bytes_per_s.min()),
    )


def _sums(keys: Ints | Longs, weights: Floats, count: int) -> Floats:
    """Sum of the weights of each key."""
    return np.bincount(keys, weights, count).astype(np.float64)


def _sent(problem: StepProblem, label: Ints, count: int) -> tuple[Floats, Floats]:
    reader = np.repeat(np.arange(problem.num_ops), np.diff(problem.read_begin))
    maker = problem.producer[problem.reads]
    made = maker >= 0
    source, target = label[maker[made]], label[reader[made]]
    between = source != target
    value = problem.reads[made][between].astype(np.int64)
    key = np.unique(value * count + target[between])
    value, target = key // count, key % count
    at = label[problem.producer[value]].astype(np.int64) * count + target
    size = problem.value_bytes[value].astype(np.float64)
    shape = (count, count)
    sent = _sums(at, size, count * count).reshape(shape)
    return sent, _sums(at, np.ones(len(at)), count * count).reshape(shape)


def _order(begin: Floats, work: Floats, label: Ints, count: int) -> Ints:
    by_cluster = np.lexsort((begin, label))
    label, begin, work = label[by_cluster], begin[by_cluster], work[by_cluster] + 1e-15
    total = _sums(label, work, count)
    before = np.concatenate([[0.0], np.cumsum(total)[:-1]])
    share = (np.cumsum(work) - before[label]) / total[label]
    late = np.flatnonzero(share >= 0.1)
    first = np.full(count, np.inf)
    np.minimum.at(first, label[late], begin[late])
    return np.argsort(first, kind="stable").astype(np.int32)


@entry_njit
def _depths(edges: Ints, duration: Floats) -> Floats:
    """`[N]`, the longest path to the begin of each op; edges stand by their readers."""
    depth = np.zeros(len(duration))
    for e in range(len(edges)):
        source, target = edges[e, 0], edges[e, 1]
        depth[target] = max(depth[target], depth[source] + duration[source])
    return depth
