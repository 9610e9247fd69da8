"""Small rule graphs, and all their valid partitions by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mcm_passes.partitioning.rule_graph import RuleGraph


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

    def csr(rows):
        ptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        return ptr, np.array([x for row in rows for x in row], np.int32)

    return RuleGraph(
        np.arange(num_nodes, dtype=np.int32), num_chips, *csr(following), *csr(before), low, high
    )


def random_graph(rng, num_nodes, num_chips, density=0.4):
    pairs = [(u, v) for v in range(num_nodes) for u in range(v)]
    edges = [pair for pair in pairs if rng.random() < density]
    return make_graph(num_nodes, edges, num_chips)


def valid_partitions(graph, max_span=None):
    """All assignments without backward edges, skipped chips, or edges longer than `max_span`."""
    n = graph.num_nodes
    edges = [
        (u, int(v))
        for u in range(n)
        for v in graph.next_nodes[graph.next_ptr[u] : graph.next_ptr[u + 1]]
    ]
    found = []
    ranges = [range(lo, hi + 1) for lo, hi in zip(graph.low, graph.high, strict=True)]
    for f in product(*ranges):
        if set(f) != set(range(max(f) + 1)):
            continue
        if all(0 <= f[v] - f[u] <= (max_span if max_span is not None else n) for u, v in edges):
            found.append(f)
    return found


@pytest.fixture
def graph_of():
    return make_graph


@pytest.fixture
def all_valid():
    return valid_partitions


@pytest.fixture
def graphs():
    """Twenty random graphs of 2 to 6 nodes on 3 chips."""
    rng = np.random.default_rng(5)
    return [random_graph(rng, int(rng.integers(2, 7)), 3, rng.uniform(0.1, 0.7)) for _ in range(20)]
