"""Graphs of ops or of clusters as neighbours in rows, and depths of ops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem


class Adjacency(NamedTuple):
    """An undirected graph of n nodes; each edge stands at both of its ends.

    Attributes:
        begin: `[n + 1]`, neighbours of node i are `other[begin[i] : begin[i + 1]]`.
        other: ascending for each node, distinct.
        weight: of each edge.
    """

    begin: Longs
    other: Ints
    weight: Floats


def edge_bytes(problem: StepProblem) -> Floats:
    """`[E]`, bytes of the values that go along each of `problem.edges`, each value once."""
    reader = np.repeat(np.arange(problem.num_ops), np.diff(problem.read_begin))
    maker = problem.producer[problem.reads].astype(np.int64)
    made = maker >= 0
    keys = maker[made] * problem.num_ops + reader[made]
    where = np.unique(keys, return_inverse=True)[1]
    moved = problem.value_bytes[problem.reads[made]].astype(np.float64)
    return sums_of(where, moved, len(problem.edges))


def sums_of(label: Ints | Longs, weight: Floats, count: int) -> Floats:
    """`[count]`, weights summed by label."""
    return np.bincount(label, weight, count).astype(np.float64)


def quotient(pairs: Ints, weight: Floats, label: Ints | Longs, count: int) -> Adjacency:
    """The graph of labels: edges between different ones, weights of parallel edges summed.

    Args:
        pairs: `[E, 2]`, nodes.
        weight: `[E]`.
        label: `[nodes]`, below `count`.
        count: labels.
    """
    a, b = label[pairs[:, 0]].astype(np.int64), label[pairs[:, 1]].astype(np.int64)
    between = a != b
    a, b, weight = a[between], b[between], weight[between]
    keys, where = np.unique(np.concatenate([a * count + b, b * count + a]), return_inverse=True)
    sums = sums_of(where, np.concatenate([weight, weight]), len(keys))
    begin = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys // max(count, 1), minlength=count), out=begin[1:])
    return Adjacency(begin, (keys % max(count, 1)).astype(np.int32), sums)


def fastest_times(problem: StepProblem, box: Box) -> Floats:
    """`[N]`, time of each op on the fastest device that may run it."""
    times = np.where(problem.allowed, problem.time_s[:, box.kind_of], np.inf)
    return times.min(axis=1) if len(times) else np.empty(0)


def depths(problem: StepProblem, duration: Floats) -> Floats:
    """`[N]`, the longest path from the begin of the step to the begin of each op.

    Args:
        problem: what is placed.
        duration: `[N]`.
    """
    pairs = problem.edges
    by_reader = pairs[np.argsort(pairs[:, 1], kind="stable")]
    return _depths(np.ascontiguousarray(by_reader), duration)


@entry_njit
def _depths(pairs: Ints, duration: Floats) -> Floats:
    depth = np.zeros(len(duration))
    for e in range(len(pairs)):
        source, target = pairs[e, 0], pairs[e, 1]
        depth[target] = max(depth[target], depth[source] + duration[source])
    return depth
