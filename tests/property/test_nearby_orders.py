"""Random orders near another one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_passes.families.ring.solver.random_stream import order_near
from mcm_passes.mapping.problem.rule_graph import from_edges


@given(st.integers(1, 30), st.integers(0, 1000), st.floats(0.0, 0.5))
@settings(max_examples=150)
def test_orders_are_topological_and_wander_through_all_of_a_small_graph(n, seed, density):
    rng = np.random.default_rng(seed)
    source, target = np.nonzero(np.triu(rng.random((n, n)) < density, 1))
    graph = from_edges(source, target, n, 3)
    order = np.arange(n, dtype=np.int32)
    for _ in range(10):
        order = order_near(graph, order, rng)
        place = np.argsort(order)
        assert sorted(order.tolist()) == list(range(n))
        assert (place[source] < place[target]).all()


def test_every_order_of_a_small_graph_is_reached_and_most_lie_near():
    graph = from_edges(np.array([0, 1]), np.array([2, 3]), 4, 3)
    rng = np.random.default_rng(0)
    order, seen = np.arange(4, dtype=np.int32), set()
    for _ in range(300):
        order = order_near(graph, order, rng)
        seen.add(tuple(order.tolist()))
    assert len(seen) == 6  # of two chains of two
    chain = from_edges(np.zeros(0, np.int64), np.zeros(0, np.int64), 100, 3)
    start = np.arange(100, dtype=np.int32)
    ways = [np.abs(np.argsort(order_near(chain, start, rng)) - start).mean() for _ in range(100)]
    assert 0.0 < np.median(ways) < 10.0
