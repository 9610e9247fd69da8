"""Small rule graphs."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.rows import rows_of
from mcm_passes.mapping.problem.rule_graph import RuleGraph


def make_graph(num_nodes, edges, num_chips, pins=None):
    """A rule graph of nodes `0 .. num_nodes - 1`; edges go from lower to higher numbers."""
    following = [sorted({v for u, v in edges if u == n}) for n in range(num_nodes)]
    before = [sorted({u for u, v in edges if v == n}) for n in range(num_nodes)]
    low = np.zeros(num_nodes, np.int32)
    high = np.full(num_nodes, num_chips - 1, np.int32)
    for node, chip in (pins or {}).items():
        low[node] = high[node] = chip
    for u, v in sorted(edges):
        low[v] = max(low[v], low[u])
    for u, v in sorted(edges, reverse=True):
        high[u] = min(high[u], high[v])

    units = np.arange(num_nodes, dtype=np.int32)
    return RuleGraph(units, num_chips, rows_of(following), rows_of(before), low, high)


def random_graph(rng, num_nodes, num_chips, density=0.4):
    pairs = [(u, v) for v in range(num_nodes) for u in range(v)]
    edges = [pair for pair in pairs if rng.random() < density]
    return make_graph(num_nodes, edges, num_chips)
