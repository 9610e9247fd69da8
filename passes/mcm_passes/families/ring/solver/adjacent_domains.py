"""Domains where every dependency spans at most one chip, which keeps the triangle rule.

For each edge `f(u) <= f(v) <= f(u) + 1`: difference constraints, whose solutions are a lattice, so
that bounds propagation is complete (Dechter, Meiri and Pearl 1991, *Temporal constraint networks*,
theorem 3.4): each value of a domain belongs to a solution, and all lower bounds together are one.
On a connected graph no chip below a used one is empty where chip 0 is used, because neighbours
are at most one chip apart; that is so while the lower bound of some source is 0. Parts without a
connection are tied to each other likewise, so that their chips join up (our restriction).

Strict partitions that are not of this kind (parallel branches over chips of their own) are for
CP-SAT.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mcm_compiler.partition import Ints, Longs
from mcm_passes.families.ring.solver.lanes import LANES, Bounds, narrow
from mcm_passes.partitioning.connected_parts import connected_parts
from mcm_passes.partitioning.rule_graph import RuleGraph


@dataclass(frozen=True, eq=False)
class NearGraph:
    """The neighbours that are at most one chip away in either direction.

    Attributes:
        next_ptr: `[n + 1]`, CSR of successors and of the nodes that each is tied to.
        next_nodes: likewise.
        before_ptr: `[n + 1]`, CSR of predecessors and of the nodes that each is tied to.
        before_nodes: likewise.
    """

    next_ptr: Longs
    next_nodes: Ints
    before_ptr: Longs
    before_nodes: Ints


MAX_SPANS = 1 << 26
"""Nodes times sources up to which spans are kept: half a second and 64 MiB."""


def near_graph(graph: RuleGraph) -> NearGraph:
    """The neighbours in a rule graph, whose parts are tied together in the order of their roots."""
    n = graph.num_nodes
    source = np.repeat(np.arange(n), np.diff(graph.next_ptr))
    target = graph.next_nodes.astype(np.int64)
    roots = np.flatnonzero(connected_parts(source, target, n) == np.arange(n))
    a, b = roots[:-1], roots[1:]
    ties = np.concatenate([a, b]), np.concatenate([b, a])
    return NearGraph(
        *_with_ties(source, target, *ties, n),
        *_with_ties(target, source, *ties, n),
    )


def source_spans(graph: RuleGraph, near: NearGraph, low: Ints) -> tuple[Ints, Bounds]:
    """The sources that can be on chip 0, and how far above each of them a node can be.

    Of a graph with more than `MAX_SPANS` pairs only the first sources are taken: one of these is
    then on chip 0 (our restriction).

    Args:
        graph: the rule graph.
        near: its neighbours.
        low: `[n]`, closed lower bounds.

    Returns:
        `[S]`, sources, and `[n, S]`, chips that each node can be above each of them at most.
    """
    sources = np.flatnonzero((np.diff(graph.before_ptr) == 0) & (low == 0)).astype(np.int32)
    sources = sources[: max(MAX_SPANS // max(graph.num_nodes, 1), 1)]
    span = np.empty((graph.num_nodes, sources.size), narrow(low[:0], graph.num_chips).dtype)
    edges = (graph.before_ptr, graph.before_nodes, near.next_ptr, near.next_nodes)
    _spans(*edges, sources, graph.num_chips, span)
    return sources, span


def _with_ties(
    source: Longs, target: Longs, tied: Longs, tied_to: Longs, n: int
) -> tuple[Longs, Ints]:
    rows, columns = np.concatenate([source, tied]), np.concatenate([target, tied_to])
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=ptr[1:])
    return ptr, columns[np.argsort(rows, kind="stable")].astype(np.int32)


@njit(cache=True, nogil=True)
def _spans(
    before_ptr: Longs,
    before_nodes: Ints,
    next_ptr: Longs,
    next_nodes: Ints,
    sources: Ints,
    num_chips: int,
    span: Bounds,
) -> None:
    """Fills `span` by a search from each source: steps to successors and ties cost 1."""
    n = before_ptr.size - 1
    room, distance = np.empty((2, 2 * n + 2), np.int32), np.empty(n, np.int32)
    for s in range(sources.size):
        distance[:] = num_chips - 1
        distance[sources[s]] = 0
        room[0, 0] = sources[s]
        here, size, level = 0, 1, 0
        while size:
            done, following = 0, 0
            while done < size:
                x = room[here, done]
                done += 1
                for k in range(before_ptr[x], before_ptr[x + 1]):
                    if distance[before_nodes[k]] > level:
                        distance[before_nodes[k]] = level
                        room[here, size] = before_nodes[k]
                        size += 1
            for i in range(size):
                x = room[here, i]
                for k in range(next_ptr[x], next_ptr[x + 1]):
                    if distance[next_nodes[k]] > level + 1:
                        distance[next_nodes[k]] = level + 1
                        room[1 - here, following] = next_nodes[k]
                        following += 1
            here, size = 1 - here, following
            level += 1
        for v in range(n):
            span[v, s] = distance[v]


@njit(cache=True, nogil=True)
def close_domains(
    next_ptr: Longs, next_nodes: Ints, tied_ptr: Longs, tied_nodes: Ints, low: Ints, high: Ints
) -> bool:
    """Closes domains under the constraints in place; False where they admit nothing.

    Args:
        next_ptr: CSR of successors.
        next_nodes: likewise.
        tied_ptr: CSR of predecessors and ties.
        tied_nodes: likewise.
        low: `[n]`.
        high: `[n]`.
    """
    changed = True
    while changed:
        changed = False
        for x in range(low.size):
            for k in range(next_ptr[x], next_ptr[x + 1]):
                y = next_nodes[k]
                if low[y] < low[x]:
                    low[y] = low[x]
                    changed = True
                if high[y] > high[x] + 1:
                    high[y] = high[x] + 1
                    changed = True
        for x in range(low.size - 1, -1, -1):
            for k in range(tied_ptr[x], tied_ptr[x + 1]):
                y = tied_nodes[k]
                if low[y] < low[x] - 1:
                    low[y] = low[x] - 1
                    changed = True
            for k in range(next_ptr[x], next_ptr[x + 1]):
                if high[x] > high[next_nodes[k]]:
                    high[x] = high[next_nodes[k]]
                    changed = True
            for k in range(tied_ptr[x], tied_ptr[x + 1]):
                y = tied_nodes[k]
                # Of a predecessor the bound is no more than that of x in any case.
                if high[y] > high[x] + 1:
                    high[y] = high[x] + 1
                    changed = True
            if low[x] > high[x]:
                return False
    return bool((low == 0).any())


@njit(cache=True, nogil=True)
def spread(
    ptr: Longs,
    nodes: Ints,
    beside_ptr: Longs,
    beside_nodes: Ints,
    rows: Bounds,
    u: int,
    base: Bounds,
    level: Ints,
    room: Ints,
) -> None:
    """Raises all rows to what follows from that of `u`, where they are closed but for that.

    A row follows from the one of `u` less the chips that lie between at most, which are the same
    in all lanes; so nodes are reached level by level, each at its least distance.

    Args:
        ptr: CSR of nodes whose bound is at least that of each.
        nodes: likewise.
        beside_ptr: CSR of nodes whose bound is at least that of each less 1.
        beside_nodes: likewise.
        rows: `[n, LANES]`, lower bounds or negatives of upper bounds.
        u: the node whose row has just been raised.
        base: `[LANES]`, room.
        level: `[n]`, room.
        room: `[2, 2 n + 2]`, room.
    """
    floor = -127 if rows.itemsize == 1 else -32767
    here, size, following = 0, 1, 0
    room[0, 0] = u
    level[u] = 0
    distance = 0
    for lane in range(LANES):
        base[lane] = rows[u, lane]
    while size:
        # First all that lies at this distance, then those one further.
        done = 0
        while done < size:
            x = room[here, done]
            done += 1
            if level[x] < distance:
                continue
            for k in range(ptr[x], ptr[x + 1]):
                v = nodes[k]
                changed = 0
                for lane in range(LANES):
                    old = rows[v, lane]
                    new = max(old, base[lane])
                    changed |= old ^ new
                    rows[v, lane] = new
                if changed != 0:
                    level[v] = distance
                    room[here, size] = v
                    size += 1
        for lane in range(LANES):
            # No bound is as low as this, and nothing is lower.
            base[lane] = max(base[lane] - 1, floor)
        for i in range(size):
            x = room[here, i]
            if level[x] < distance:
                continue
            for k in range(beside_ptr[x], beside_ptr[x + 1]):
                v = beside_nodes[k]
                changed = 0
                for lane in range(LANES):
                    old = rows[v, lane]
                    new = max(old, base[lane])
                    changed |= old ^ new
                    rows[v, lane] = new
                if changed != 0:
                    level[v] = distance + 1
                    room[1 - here, following] = v
                    following += 1
        here, size, following = 1 - here, following, 0
        distance += 1
