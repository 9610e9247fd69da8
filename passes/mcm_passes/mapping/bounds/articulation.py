"""Articulation units of a graph of any size: units that all other work comes before or after.

Collecting all ancestors takes N^2 bits. If a graph has one beginning and one end, articulation
units are found by one sweep (our derivation). In a topological order, every unit after position v
descends from v if and only if every such unit has a predecessor at v or later. By induction: the
predecessor is v, or is between and descends from v. Likewise backwards. A skip connection around
v does not hide it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Bools, Floats, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges

Nodes = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@entry_njit
def connected_parts(source: Nodes, target: Nodes, n: int) -> Longs:
    """`[n]`, the lowest node that each is connected with."""
    parent = np.arange(n)
    for e in range(source.size):
        a, b = source[e], target[e]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        parent[max(a, b)] = min(a, b)
    for u in range(n):
        parent[u] = parent[parent[u]]
    return parent


BEGINNINGS = 4
"""Sources that are tried as the one beginning; likewise sinks."""


def articulation_units_by_sweep(problem: PartitionProblem) -> tuple[Floats, Floats, float]:
    """Work of the articulation units in order, work right before each, and work after the last one.

    They are articulation units of what is on paths from one source to one sink, chosen so that
    this holds much work; all other work is left out, as are clonable units. Takes O(N + E).

    Returns:
        `heavy[k]`, `loose[k]` and `rest` in seconds, for `chips_to_fill`; `k` may be 0.
    """
    n = problem.num_units
    source, target = (ends.astype(np.int64) for ends in dependency_edges(problem))
    work = np.where(problem.clonable, 0.0, problem.compute_s)
    by_source = np.argsort(source, kind="stable")
    by_target = np.argsort(target, kind="stable")[::-1]
    between = ~problem.clonable
    # Edges are walked in an order in which whatever leads to an edge's start is walked before.
    for start, end, order in ((source, target, by_source), (target, source, by_target)):
        ends_reached = np.zeros(n, dtype=np.bool_)
        ends_reached[end] = True
        free = np.flatnonzero(between & ~ends_reached)
        tried = free[np.argsort(-_degree(start, n)[free], kind="stable")][:BEGINNINGS]
        reached = [_reachable(start[order], end[order], int(u), n) for u in tried]
        if not reached:
            return np.empty(0), np.empty(0), 0.0
        between &= max(reached, key=lambda r: float(work[r & between].sum()))
    inner = between[source] & between[target]
    return _chain(work, between, source[inner], target[inner])


def _degree(ends: Longs, size: int) -> Longs:
    return np.bincount(ends, minlength=size).astype(np.int64)


def _chain(
    work: Floats, between: Bools, source: Longs, target: Longs
) -> tuple[Floats, Floats, float]:
    """The articulation units among the units `between`, whose edges are given."""
    n = work.size
    latest_reader = np.full(n, -1, dtype=np.int64)
    first_reader = np.full(n, n, dtype=np.int64)
    np.maximum.at(latest_reader, target, source)
    np.minimum.at(first_reader, source, target)
    # Only the end has no reader, and only the beginning reads nothing.
    members = np.flatnonzero(between)
    producer, reader = latest_reader[members], first_reader[members]
    after = np.append(np.minimum.accumulate(producer[::-1])[::-1][1:], n)
    before = np.insert(np.maximum.accumulate(reader)[:-1], 0, -1)
    is_articulation = (after >= members) & (before <= members) & (work[members] > 0.0)
    where = np.flatnonzero(is_articulation)
    # Sums of what lies between, and not differences of running sums, which would round.
    loose = np.add.reduceat(np.where(is_articulation, 0.0, work[members]), [0, *where.tolist()])
    return work[members[where]], loose[:-1], float(loose[-1])


@entry_njit
def _reachable(start: Longs, end: Longs, origin: int, size: int) -> Bools:
    """`[size]`, what edges lead to from `origin`, itself included."""
    reached = np.zeros(size, dtype=np.bool_)
    reached[origin] = True
    for e in range(start.size):
        if reached[start[e]]:
            reached[end[e]] = True
    return reached
