"""Domains where every dependency spans at most one chip, which keeps the triangle rule.

For each edge `f(u) <= f(v) <= f(u) + 1`: difference constraints, whose solutions are a lattice, so
that bounds propagation is complete (Dechter, Meiri and Pearl 1991, *Temporal constraint networks*,
theorem 3.4): each value of a domain belongs to a solution, and all lower bounds together are one.
On a connected graph no chip below a used one is empty where chip 0 is used, because neighbours
are at most one chip apart; that is so while the lower bound of some source is 0. Parts without a
connection are tied to each other likewise, so that their chips join up (our restriction).

Each constraint bounds one node from below by another's bound, less 0 along edges, or less 1 to
neighbours; for upper bounds, kept as their negatives, so it is the other way round. `spread` is
all there is to say of that: it closes bounds where one was raised.

Strict partitions that are not of this kind (parallel branches over chips of their own) are for
CP-SAT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Ints
from mcm_passes.families.ring.solver.lanes import (
    LANES,
    Bounds,
    Csr,
    Domains,
    Edges,
    narrow,
    raise_row,
)
from mcm_passes.mapping.bounds.connected_parts import connected_parts
from mcm_passes.mapping.problem.rule_graph import RuleGraph, compressed_rows


class AdjacentFacts(NamedTuple):
    """What all rollouts share where dependencies span at most one chip.

    Attributes:
        near: neighbours that are at most one chip away: successors or predecessors, and the nodes
            that each is tied to.
        sources: `[S]`, sources that can be on chip 0.
        span: `[n, S]`, chips that each node can be above each of them at most.
    """

    near: Edges
    sources: Ints
    span: Bounds


class SpreadRoom(NamedTuple):
    """Room for `spread`.

    Attributes:
        base: `[LANES]`, what nodes at the distance that is reached are raised to.
        distance: `[n]`, the least at which each node was last raised.
        queue: `[2, 2 n + 2]`, nodes to go on from, at this distance and the next.
    """

    base: Bounds
    distance: Ints
    queue: Ints


MAX_SPANS = 1 << 26
"""Nodes times sources up to which spans are kept: half a second and 64 MiB."""


def edges_of(graph: RuleGraph) -> Edges:
    """The edges of a rule graph."""
    return Edges(Csr(graph.next_ptr, graph.next_nodes), Csr(graph.before_ptr, graph.before_nodes))


def near_graph(graph: RuleGraph) -> Edges:
    """The neighbours in a rule graph, whose parts are tied together in the order of their roots."""
    n = graph.num_nodes
    source, target = graph.sources, graph.next_nodes.astype(np.int64)
    roots = np.flatnonzero(connected_parts(source, target, n) == np.arange(n))
    ties = np.concatenate([roots[:-1], roots[1:]]), np.concatenate([roots[1:], roots[:-1]])
    a, b = np.concatenate([source, ties[0]]), np.concatenate([target, ties[1]])
    return Edges(Csr(*compressed_rows(a, b, n)), Csr(*compressed_rows(b, a, n)))


def adjacent_facts(graph: RuleGraph) -> tuple[AdjacentFacts, Domains] | None:
    """What rollouts share, and closed domains; None where no partition is of this kind.

    Of a graph with more than `MAX_SPANS` pairs of nodes and sources only the first sources are
    taken: one of these is then on chip 0 (our restriction).
    """
    edges, near, num_chips = edges_of(graph), near_graph(graph), graph.num_chips
    low, minus_high = narrow(graph.low, num_chips), narrow(-graph.high, num_chips)
    low = _close(edges.following, near.before, low, 0)
    minus_high = _close(edges.before, near.following, minus_high, 1 - num_chips)
    if not (low == 0).any() or (low > -minus_high).any():
        return None
    sources = np.flatnonzero((np.diff(graph.before_ptr) == 0) & (low == 0)).astype(np.int32)
    sources = sources[: max(MAX_SPANS // graph.num_nodes, 1)]
    span = np.empty((graph.num_nodes, sources.size), low.dtype)
    _fill_spans(edges, near, sources, num_chips, span)
    return AdjacentFacts(near, sources, span), Domains(
        low, np.minimum(-minus_high, span.max(axis=1))
    )


@inner_njit
def room_for_spread(bounds: Bounds) -> SpreadRoom:
    """Room for `spread` with bounds of the type and length of `bounds`."""
    n = bounds.size
    queue = np.empty((2, 2 * n + 2), np.int32)
    return SpreadRoom(np.empty(LANES, bounds.dtype), np.empty(n, np.int32), queue)


@entry_njit
def _close(level: Csr, beside: Csr, bounds: Bounds, least: int) -> Bounds:
    """`[n]`, `bounds[n]` closed as by `spread`; none is below `least`."""
    rows = np.full((bounds.size, LANES), least, bounds.dtype)
    room = room_for_spread(bounds)
    for u in np.argsort(-bounds):
        if bounds[u] > rows[u, 0]:
            rows[u] = bounds[u]
            spread(level, beside, rows, u, room)
    return rows[:, 0].copy()


@entry_njit
def _fill_spans(edges: Edges, near: Edges, sources: Ints, num_chips: int, span: Bounds) -> None:
    """Fills `span[n, S]`: upper bounds where one source is on chip 0, a lane for each."""
    room = room_for_spread(span[:, 0].copy())
    rows = np.empty((span.shape[0], LANES), span.dtype)
    for begin in range(0, sources.size, LANES):
        rows[:] = 1 - num_chips
        in_lanes = sources[begin : begin + LANES]
        for lane in range(in_lanes.size):
            rows[in_lanes[lane], lane] = 0
            spread(edges.before, near.following, rows, in_lanes[lane], room)
        span[:, begin : begin + LANES] = -rows[:, : in_lanes.size]


@lean_inner_njit
def spread(level: Csr, beside: Csr, rows: Bounds, u: int, room: SpreadRoom) -> None:
    """Raises all rows to what follows from that of `u`, where they are closed but for that.

    A row follows from the one of `u` less the chips that lie between at most, which are the same
    in all lanes; so nodes are reached level by level, each at its least distance.

    Args:
        level: nodes whose bound is at least that of each.
        beside: nodes whose bound is at least that of each less 1.
        rows: `[n, LANES]`, lower bounds or negatives of upper bounds.
        u: the node whose row has just been raised.
        room: room.
    """
    floor = -127 if rows.itemsize == 1 else -32767
    here, size, distance = 0, 1, 0
    room.queue[0, 0] = u
    room.distance[u] = 0
    for lane in range(LANES):
        room.base[lane] = rows[u, lane]
    while size:
        # First all that lies at this distance, then those one further.
        done = 0
        while done < size:
            x = room.queue[here, done]
            done += 1
            if room.distance[x] >= distance:
                size = _raise_from(x, level, rows, room, distance, here, size)
        for lane in range(LANES):
            # No bound is as low as this, and nothing is lower.
            room.base[lane] = max(room.base[lane] - 1, floor)
        following = 0
        for i in range(size):
            x = room.queue[here, i]
            if room.distance[x] >= distance:
                following = _raise_from(x, beside, rows, room, distance + 1, 1 - here, following)
        here, size = 1 - here, following
        distance += 1


@inlined_njit
def _raise_from(
    x: int, edges: Csr, rows: Bounds, room: SpreadRoom, distance: int, queue: int, size: int
) -> int:
    """Raises the rows of all that x leads to, and queues those; the length of the queue."""
    for k in range(edges.ptr[x], edges.ptr[x + 1]):
        v = edges.nodes[k]
        if raise_row(rows, v, room.base) != 0:
            room.distance[v] = distance
            room.queue[queue, size] = v
            size += 1
    return size
