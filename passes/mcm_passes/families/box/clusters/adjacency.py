"""Graphs of ops or of clusters as neighbours in rows, and depths of ops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import starts
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
    maker = problem.producer[problem.reads].astype(np.int64)
    made = maker >= 0
    keys = maker[made] * problem.num_ops + problem.reader[made]
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
    begin = starts(np.bincount(keys // max(count, 1), minlength=count))
    return Adjacency(begin, (keys % max(count, 1)).astype(np.int32), sums)


def fastest_times(problem: StepProblem, box: Box) -> Floats:
    """`[N]`, time of each op on the fastest device that may run it."""
    times = problem.device_times(box)
    return times.min(axis=1) if len(times) else np.empty(0)


@entry_njit
def heads_and_tails(edges: Ints, fastest: Floats) -> Floats:
    """`[2, N]`: the longest chains that lead to each op and that follow it, without its own time.

    Args:
        edges: `[E, 2]`, pairs of an op and a later one that needs it, ascending.
        fastest: `[N]`, seconds.
    """
    ends = np.zeros((2, len(fastest)))
    for e in range(len(edges)):
        one, other = edges[e, 0], edges[e, 1]
        ends[0, other] = max(ends[0, other], ends[0, one] + fastest[one])
    for e in range(len(edges) - 1, -1, -1):
        one, other = edges[e, 0], edges[e, 1]
        ends[1, one] = max(ends[1, one], ends[1, other] + fastest[other])
    return ends
