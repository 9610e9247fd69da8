"""Domains where every dependency spans at most one chip, which keeps the triangle rule.

For each edge `f(u) <= f(v) <= f(u) + 1`: difference constraints, whose solutions are a lattice, so
that bounds propagation is complete (Dechter, Meiri and Pearl 1991, *Temporal constraint networks*,
theorem 3.4): each value of a domain belongs to a solution, and all lower bounds together are one.
On a connected graph no chip below a used one is empty where chip 0 is used, because neighbours
are at most one chip apart; that is so while the lower bound of some source is 0. Parts without a
connection are tied to each other likewise, so that their chips join up (our restriction).

Strict partitions that are not of this kind (parallel branches over chips of their own) are for
`ConstraintSolver` and CP-SAT.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mcm_compiler.partition import Ints, Longs
from mcm_passes.solver.lanes import LANES, Bounds
from mcm_passes.solver.rule_graph import RuleGraph


@dataclass(frozen=True, eq=False)
class NearGraph:
    """The neighbours that are at most one chip away in either direction.

    Attributes:
        next_ptr: `[n + 1]`, CSR of successors and of the nodes that each is tied to.
        next_nodes: likewise.
        before_ptr: `[n + 1]`, CSR of predecessors and of the nodes that each is tied to.
        before_nodes: likewise.
        sources: nodes without predecessors.
    """

    next_ptr: Longs
    next_nodes: Ints
    before_ptr: Longs
    before_nodes: Ints
    sources: Ints


def near_graph(graph: RuleGraph) -> NearGraph:
    """The neighbours in a rule graph, whose parts are tied together in the order of their roots."""
    n = graph.num_nodes
    source = np.repeat(np.arange(n), np.diff(graph.next_ptr))
    target = graph.next_nodes.astype(np.int64)
    roots = np.flatnonzero(_part(source, target, n) == np.arange(n))
    a, b = roots[:-1], roots[1:]
    ties = np.concatenate([a, b]), np.concatenate([b, a])
    return NearGraph(
        *_with_ties(source, target, *ties, n),
        *_with_ties(target, source, *ties, n),
        np.flatnonzero(np.diff(graph.before_ptr) == 0).astype(np.int32),
    )


def _with_ties(
    source: Longs, target: Longs, tied: Longs, tied_to: Longs, n: int
) -> tuple[Longs, Ints]:
    rows, columns = np.concatenate([source, tied]), np.concatenate([target, tied_to])
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n), out=ptr[1:])
    return ptr, columns[np.argsort(rows, kind="stable")].astype(np.int32)


@njit(cache=True, nogil=True)
def _part(source: Longs, target: Longs, n: int) -> Longs:
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
    trail_nodes: Ints,
    trail: Bounds,
    keeps_trail: bool,
) -> int:
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
        trail_nodes: `[2 n + 2]`, filled with the nodes whose rows have changed.
        trail: `[2 n + 2, LANES]`, filled with what they were.
        keeps_trail: whether to fill them.

    Returns:
        Entries of the trail.
    """
    length, here, size, following = 0, 0, 1, 0
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
                if keeps_trail:
                    for lane in range(LANES):
                        trail[length, lane] = rows[v, lane]
                for lane in range(LANES):
                    old = rows[v, lane]
                    new = max(old, base[lane])
                    changed |= old ^ new
                    rows[v, lane] = new
                if changed != 0:
                    trail_nodes[length] = v
                    length += keeps_trail
                    level[v] = distance
                    room[here, size] = v
                    size += 1
        for lane in range(LANES):
            # Nothing is below -127, and no bound lies there.
            base[lane] = max(base[lane] - 1, -127)
        for i in range(size):
            x = room[here, i]
            if level[x] < distance:
                continue
            for k in range(beside_ptr[x], beside_ptr[x + 1]):
                v = beside_nodes[k]
                changed = 0
                if keeps_trail:
                    for lane in range(LANES):
                        trail[length, lane] = rows[v, lane]
                for lane in range(LANES):
                    old = rows[v, lane]
                    new = max(old, base[lane])
                    changed |= old ^ new
                    rows[v, lane] = new
                if changed != 0:
                    trail_nodes[length] = v
                    length += keeps_trail
                    level[v] = distance + 1
                    room[1 - here, following] = v
                    following += 1
        here, size, following = 1 - here, following, 0
        distance += 1
    return length
