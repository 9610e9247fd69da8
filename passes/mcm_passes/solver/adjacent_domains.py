"""Domains where every dependency spans at most one chip, which keeps the triangle rule.

For each edge `f(u) <= f(v) <= f(u) + 1`: difference constraints, whose solutions are a lattice, so
that bounds propagation is complete (Dechter, Meiri and Pearl 1991, *Temporal constraint networks*,
theorem 3.4): each value of a domain belongs to a solution, and all lower bounds together are one.
On a connected graph no chip below a used one is empty where chip 0 is used, because neighbours
are at most one chip apart; that is so while some lower bound is 0. Parts without a connection
are tied to each other likewise, so that their chips join up (our restriction).

Strict partitions that are not of this kind (parallel branches over chips of their own) are for
CP-SAT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Ints, Longs
from mcm_passes.solver.rule_graph import RuleGraph

Steps = npt.NDArray[np.int8]


class NearGraph(NamedTuple):
    """Which bounds follow from which.

    Attributes:
        ptr: `[n + 1]`, CSR.
        nodes: neighbours of each node.
        low_step: `low[neighbour] >= low[node] + low_step`.
        high_step: `high[neighbour] <= high[node] + high_step`.
    """

    ptr: Longs
    nodes: Ints
    low_step: Steps
    high_step: Steps


class NearState(NamedTuple):
    """Domains of one rollout.

    Attributes:
        low: `[n]`.
        high: `[n]`.
        zeros: `[1]`, nodes with a lower bound of 0.
        stack: `[n]`, room for propagation.
        waiting: `[n]`, whether a node is on the stack.
        trail_node: `[n C]`, nodes whose lower bounds the last decision raised.
        trail_bound: `[n C]`, what they were; a bound rises at most C times.
    """

    low: Ints
    high: Ints
    zeros: Ints
    stack: Ints
    waiting: npt.NDArray[np.bool_]
    trail_node: Ints
    trail_bound: Ints


def near_graph(graph: RuleGraph) -> NearGraph:
    """The constraints of a rule graph, with its parts tied together."""
    n = graph.num_nodes
    source = np.repeat(np.arange(n), np.diff(graph.next_ptr))
    target = graph.next_nodes.astype(np.int64)
    roots = np.flatnonzero(_part(source, target, n) == np.arange(n))
    a, b = roots[:-1], roots[1:]
    node = np.concatenate([source, target, a, b])
    other = np.concatenate([target, source, b, a])
    edges, ties = source.size, a.size
    low_step = np.concatenate([np.zeros(edges), -np.ones(edges + 2 * ties)]).astype(np.int8)
    high_step = np.concatenate([np.ones(edges), np.zeros(edges), np.ones(2 * ties)]).astype(np.int8)
    order = np.argsort(node, kind="stable")
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(node, minlength=n), out=ptr[1:])
    return NearGraph(ptr, other[order].astype(np.int32), low_step[order], high_step[order])


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
def new_near_state(num_nodes: int, num_chips: int) -> NearState:
    """Room for a rollout; `start_near` fills it."""
    return NearState(
        np.empty(num_nodes, np.int32),
        np.empty(num_nodes, np.int32),
        np.zeros(1, np.int32),
        np.empty(num_nodes, np.int32),
        np.zeros(num_nodes, np.bool_),
        np.empty(num_nodes * num_chips, np.int32),
        np.empty(num_nodes * num_chips, np.int32),
    )


@njit(cache=True, nogil=True)
def close_domains(graph: NearGraph, low: Ints, high: Ints) -> bool:
    """Closes domains under the constraints in place; False where they admit nothing."""
    changed = True
    while changed:
        changed = False
        for x in range(low.size):
            for k in range(graph.ptr[x], graph.ptr[x + 1]):
                y = graph.nodes[k]
                if low[y] < low[x] + graph.low_step[k]:
                    low[y] = low[x] + graph.low_step[k]
                    changed = True
                if high[y] > high[x] + graph.high_step[k]:
                    high[y] = high[x] + graph.high_step[k]
                    changed = True
            if low[x] > high[x]:
                return False
    return bool((low == 0).any())


@njit(cache=True, nogil=True)
def start_near(state: NearState, low: Ints, high: Ints) -> None:
    """Opens all nodes with the given closed domains."""
    state.low[:] = low
    state.high[:] = high
    state.zeros[0] = (low == 0).sum()


@njit(cache=True, nogil=True, inline="always")
def place_near(graph: NearGraph, state: NearState, u: int, chip: int) -> bool:
    """Decides that `u` goes to `chip`, which is in its domain.

    Returns:
        Whether it is done. Otherwise nothing has changed, and neither `chip` nor any chip above
        is possible, because chip 0 would be empty.
    """
    changes = 0
    if state.low[u] < chip:
        state.trail_node[0] = u
        state.trail_bound[0] = state.low[u]
        changes = 1
        state.zeros[0] -= state.low[u] == 0
        state.low[u] = chip
        changes = _raise_near(graph, state, u, changes)
        if state.zeros[0] == 0:
            for t in range(changes - 1, -1, -1):
                x = state.trail_node[t]
                state.low[x] = state.trail_bound[t]
                state.zeros[0] += state.low[x] == 0
            return False
    if state.high[u] > chip:
        state.high[u] = chip
        _lower_near(graph, state, u)
    return True


@njit(cache=True, nogil=True, inline="always")
def _raise_near(graph: NearGraph, state: NearState, u: int, changes: int) -> int:
    size = 1
    state.stack[0] = u
    state.waiting[u] = True
    while size:
        size -= 1
        x = state.stack[size]
        state.waiting[x] = False
        for k in range(graph.ptr[x], graph.ptr[x + 1]):
            y = graph.nodes[k]
            bound = state.low[x] + graph.low_step[k]
            if state.low[y] < bound:
                state.trail_node[changes] = y
                state.trail_bound[changes] = state.low[y]
                changes += 1
                state.zeros[0] -= state.low[y] == 0
                state.low[y] = bound
                if not state.waiting[y]:
                    state.waiting[y] = True
                    state.stack[size] = y
                    size += 1
    return changes


@njit(cache=True, nogil=True, inline="always")
def _lower_near(graph: NearGraph, state: NearState, u: int) -> None:
    size = 1
    state.stack[0] = u
    state.waiting[u] = True
    while size:
        size -= 1
        x = state.stack[size]
        state.waiting[x] = False
        for k in range(graph.ptr[x], graph.ptr[x + 1]):
            y = graph.nodes[k]
            bound = state.high[x] + graph.high_step[k]
            if state.high[y] > bound:
                state.high[y] = bound
                if not state.waiting[y]:
                    state.waiting[y] = True
                    state.stack[size] = y
                    size += 1
