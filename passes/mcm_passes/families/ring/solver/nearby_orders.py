"""Random topological orders near a given one."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.mapping.problem.rule_graph import RuleGraph

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
    if rng.random() < 0.5:
        _after(graph.before_ptr, graph.before_nodes, wanted)
    else:
        _before(graph.next_ptr, graph.next_nodes, wanted)
    return np.lexsort((place, wanted)).astype(np.int32)


def _between(low: float, high: float, rng: np.random.Generator) -> float:
    """A number whose logarithm is uniform."""
    return float(low * (high / low) ** rng.random())


@entry_njit
def _after(before_ptr: Longs, before_nodes: Ints, wanted: Floats) -> None:
    for v in range(wanted.size):
        for e in range(before_ptr[v], before_ptr[v + 1]):
            wanted[v] = max(wanted[v], wanted[before_nodes[e]])


@entry_njit
def _before(next_ptr: Longs, next_nodes: Ints, wanted: Floats) -> None:
    for v in range(wanted.size - 1, -1, -1):
        for e in range(next_ptr[v], next_ptr[v + 1]):
            wanted[v] = min(wanted[v], wanted[next_nodes[e]])
