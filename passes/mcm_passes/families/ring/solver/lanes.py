"""Lanes: batch rows of rollouts that decide the same node at once, for SIMD instructions.

Propagation is nearly all of the work, and what one decision changes in one rollout it mostly
changes in others as well. So rollouts with the same order of nodes run side by side. Each node's
bounds are one row of `LANES` small integers. A decision spreads through the rows of all lanes in
one go, and a row is left as soon as no lane changes. Where a lane has nothing to say its
instruction is idle. Lanes share nothing else: a rollout comes out the same in any company.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_passes.families.ring.solver.random_stream import uniform

LANES = 32
"""Rollouts side by side: with bounds of one byte, one 256-bit register."""

Bounds = npt.NDArray[np.integer[Any]]
Singles = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]


class Csr(NamedTuple):
    """Nodes that each node leads to, row after row.

    Attributes:
        ptr: `[n + 1]`, where the row of each begins.
        nodes: `[E]`.
    """

    ptr: Longs
    nodes: Ints


class Edges(NamedTuple):
    """Edges of a graph, both ways.

    Attributes:
        following: of successors.
        before: of predecessors.
    """

    following: Csr
    before: Csr


class Domains(NamedTuple):
    """Chips that nodes may be on before anything is decided.

    Attributes:
        low: `[n]`, the lowest.
        high: `[n]`, the highest.
    """

    low: Bounds
    high: Bounds


class Lanes(NamedTuple):
    """Chips that nodes may be on in a group of rollouts.

    Attributes:
        low: `[n, LANES]`, the lowest.
        minus_high: `[n, LANES]`, negatives of the highest.
    """

    low: Bounds
    minus_high: Bounds


def narrow(bounds: Ints, num_chips: int) -> Bounds:
    """`bounds` in the smallest type that holds chips, with space for their negatives."""
    return bounds.astype(np.int8 if num_chips <= 127 else np.int16)


def widen(bounds: Bounds) -> Ints:
    """Undoes `narrow`."""
    return bounds.astype(np.int32)


@inner_njit
def room_for_lanes(first: Domains) -> Lanes:
    """Space for the domains of groups of rollouts."""
    shape = (first.low.size, LANES)
    return Lanes(np.empty(shape, first.low.dtype), np.empty(shape, first.low.dtype))


@lean_inner_njit
def fill_lanes(lanes: Lanes, first: Domains, count: int) -> None:
    """Gives the first `count` lanes the domains `first`, and the others a chip for each node."""
    for v in range(first.low.size):
        for lane in range(LANES):
            lanes.low[v, lane] = first.low[v]
            lanes.minus_high[v, lane] = -(first.high[v] if lane < count else first.low[v])


@inlined_njit
def raise_row(rows: Bounds, v: int, least: Bounds) -> int:
    """Raises a row to at least `least[LANES]`; not 0 where that changes any lane."""
    changed = 0
    for lane in range(LANES):
        old = rows[v, lane]
        new = max(old, least[lane])
        changed |= old ^ new
        rows[v, lane] = new
    return changed


@lean_inner_njit
def raise_rows(edges: Csr, rows: Bounds, u: int, stack: Ints) -> None:
    """Raises the rows of all that `u` leads to to at least its own, where that is closed but for u.

    Upper bounds are kept as their negatives, so that this lowers them too.

    Args:
        edges: the nodes that each leads to.
        rows: `[n, LANES]`.
        u: the node whose row has just been raised.
        stack: `[n + 1]`, space.
    """
    size = 1
    stack[0] = u
    while size:
        size -= 1
        x = stack[size]
        for k in range(edges.ptr[x], edges.ptr[x + 1]):
            v = edges.nodes[k]
            if raise_row(rows, v, rows[u]) != 0:
                stack[size] = v
                size += 1


@inner_njit
def draw(
    low: int,
    high: int,
    excluded: npt.NDArray[np.bool_],
    weights: Singles,
    which: int,
    u: int,
    streams: Words,
    stream: int,
) -> int:
    """A chip from `low` to `high` that is not excluded, by its weight.

    Args:
        low: the lowest.
        high: the highest.
        excluded: `[C]`, or empty where none is.
        weights: `[B, n, C]`; where all that is left weighs 0 the draw is uniform.
        which: row of `weights`, or -1 for uniform.
        u: the node.
        streams: random streams.
        stream: the one to draw from.
    """
    if low == high:
        return low
    point = uniform(streams, stream)
    if which < 0 and excluded.size == 0:
        return low + int(point * (high - low + 1))
    total, plain = 0.0, which < 0
    for attempt in range(2):
        plain = which < 0 or attempt == 1
        for c in range(low, high + 1):
            if excluded.size == 0 or not excluded[c]:
                total += 1.0 if plain else weights[which, u, c]
        if total > 0.0:
            break
    point *= total
    last = low
    for c in range(low, high + 1):
        if excluded.size == 0 or not excluded[c]:
            weight = 1.0 if plain else weights[which, u, c]
            if weight > 0.0:
                last = c
                point -= weight
                if point < 0.0:
                    return c
    return last
