"""Random numbers and orders in compiled kernels: one stream per rollout, the same on any thread.

Sources stand late in topological orders, next to their first readers.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words, close_bounds

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11))
_UNIT = 1.0 / (1 << 53)


def streams(rng: np.random.Generator, count: int) -> Words:
    """`[count]`, the state of one stream each, drawn from `rng`."""
    return rng.integers(0, np.iinfo(np.uint64).max, count, dtype=np.uint64, endpoint=True)


@expanded_njit
def uniform(state: Words, stream: int) -> float:
    """The next number of a stream, uniform in [0, 1).

    SplitMix64 (Steele, Lea and Flood 2014, *Fast Splittable Pseudorandom Number Generators*).
    """
    state[stream] += _GOLDEN
    z = state[stream]
    z = (z ^ (z >> _SHIFTS[0])) * _MIX_1
    z = (z ^ (z >> _SHIFTS[1])) * _MIX_2
    z = z ^ (z >> _SHIFTS[2])
    return float(z >> _SHIFTS[3]) * _UNIT


@entry_njit
def random_orders(states: Words, n: int) -> Ints:
    """`[len(states), n]`, random orders of n numbers (Fisher and Yates), one of each stream."""
    orders = np.empty((states.size, n), np.int32)
    for row in range(states.size):
        order = orders[row]
        order[:] = np.arange(n)
        for i in range(n - 1, 0, -1):
            j = int(uniform(states, row) * (i + 1))
            order[i], order[j] = order[j], order[i]
    return orders


LEAST_WAY = 0.5
"""Positions that a node strays at least, as a standard deviation."""

MOST_WAY = 0.25
"""That it strays at most, as a share of all."""

MOST_ASTRAY = 0.5
"""Share of nodes that stray at most."""


def order_near(graph: RuleGraph, order: Ints, rng: np.random.Generator) -> Ints:
    """A topological order of which some nodes stand elsewhere than in another (ours).

    A random share of the nodes strays by a random distance; both differ from order to order by
    orders of magnitude, as nobody knows which are right. Where a node would then stand before one
    that it needs, it follows that one, or half of the time takes it along.

    Args:
        graph: the graph.
        order: `[n]`, a topological order of its nodes.
        rng: source of randomness.
    """
    n = order.size
    place = np.empty(n)
    place[order] = np.arange(n)
    way = _between(LEAST_WAY, max(MOST_WAY * n, LEAST_WAY), rng)
    astray = rng.random(n) < _between(1.0 / n, MOST_ASTRAY, rng)
    wanted = place + np.where(astray, way * rng.standard_normal(n), 0.0)
    # A node that stands too early moves behind all before it, or one too late before all behind.
    late, early = wanted, wanted.copy()
    close_bounds(graph.after, late, early)
    wanted = late if rng.random() < 0.5 else early
    return np.lexsort((place, wanted)).astype(np.int32)


def _between(low: float, high: float, rng: np.random.Generator) -> float:
    """A number whose logarithm is uniform."""
    return float(low * (high / low) ** rng.random())


_NEWEST = 0.75
"""Share of steps that go on with what has just become ready.

Orders that jump between branches at every step leave few places where little crosses a cut.
"""


def linear_extensions(graph: RuleGraph, states: Words) -> Ints:
    """`[len(states), n]`, random topological orders of a rule graph.

    Every order that keeps sources next to their first reader can be drawn, not all with the same
    probability. A source that stands anywhere else only makes cuts cross that need not.

    Args:
        graph: the graph.
        states: random streams, one for each order.
    """
    return _extend(graph.after, graph.before, states)


@entry_njit
def _extend(after: Rows, before: Rows, states: Words) -> Ints:
    n = after.ptr.size - 1
    orders = np.empty((states.size, n), np.int32)
    missing, ready = np.empty(n, np.int32), np.empty(n, np.int32)
    placed = np.empty(n, np.bool_)
    for b in range(states.size):
        size, done = 0, 0
        placed[:] = False
        for v in range(n):
            missing[v] = 0
            for k in range(before.ptr[v], before.ptr[v + 1]):
                u = before.entries[k]
                missing[v] += before.ptr[u] < before.ptr[u + 1]
            alone = before.ptr[v] == before.ptr[v + 1]
            if missing[v] == 0 and (not alone or after.ptr[v] == after.ptr[v + 1]):
                ready[size] = v
                size += 1
        while size:
            if uniform(states, b) >= _NEWEST:
                other = int(uniform(states, b) * size)
                ready[other], ready[size - 1] = ready[size - 1], ready[other]
            size -= 1
            v = ready[size]
            for k in range(before.ptr[v], before.ptr[v + 1]):
                u = before.entries[k]
                # All others among its predecessors are placed, so this is a source.
                if not placed[u]:
                    placed[u] = True
                    orders[b, done] = u
                    done += 1
            placed[v] = True
            orders[b, done] = v
            done += 1
            if before.ptr[v] == before.ptr[v + 1]:
                continue
            for k in range(after.ptr[v], after.ptr[v + 1]):
                follower = after.entries[k]
                missing[follower] -= 1
                if missing[follower] == 0:
                    ready[size] = follower
                    size += 1
    return orders
