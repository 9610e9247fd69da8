"""SAMPLE and FIX never return an invalid partition.

A quick share of the draws; `tools/bench/solver.py --draws 1000000` makes the rest.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.arrays.rows import distinct_rows
from mcm_compiler.placements.ring_rules import find_violations
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.problem.rule_graph import RuleGraph

ROLLOUTS = 50


@st.composite
def graphs(draw):
    """Rule graphs of up to 24 nodes on up to 12 chips, some nodes pinned."""
    n = draw(st.integers(1, 24))
    num_chips = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    density = draw(st.floats(0.0, 0.5))
    pairs = np.argwhere(np.triu(rng.random((n, n)) < density, 1))
    low, high = np.zeros(n, np.int32), np.full(n, num_chips - 1, np.int32)
    for u in draw(st.lists(st.integers(0, n - 1), max_size=2, unique=True)):
        low[u] = high[u] = draw(st.integers(0, num_chips - 1))
    for u, v in pairs:
        low[v] = max(low[v], low[u])
    for u, v in pairs[::-1]:
        high[u] = min(high[u], high[v])
    after, before = (distinct_rows(pairs[:, k], pairs[:, 1 - k], n) for k in (0, 1))
    return RuleGraph(np.arange(n, dtype=np.int32), num_chips, after, before, low, high)


ARGUMENTS = (graphs(), st.sampled_from(["relay", "strict"]), st.integers(0, 1 << 30), st.booleans())


@settings(max_examples=60)
@given(*ARGUMENTS)
def test_sample_and_fix_are_valid(graph, routing, seed, own_orders):
    check_draws(graph, routing, seed, own_orders, ROLLOUTS)


def check_draws(graph, routing, seed, own_orders, rollouts):
    """Draws twice as many partitions; how many there were, none where no partition is valid."""
    rng = np.random.default_rng(seed)
    solver = BatchSolver.of(graph, routing)
    n = graph.num_nodes
    weights = (rng.random((rollouts, n, graph.num_chips)) ** 8).astype(np.float32)
    weights[rng.random(weights.shape) < 0.3] = 0.0
    proposals = rng.integers(-1, graph.num_chips + 1, (rollouts, n)).astype(np.int32)
    orders = None
    if own_orders:
        orders = np.array([rng.permutation(n) for _ in range(rollouts)], np.int32)
    drawn = np.concatenate(
        [solver.sample(rng, rollouts, weights, orders), solver.fix(rng, proposals, weights, orders)]
    )
    source = graph.after.owners.astype(np.int32)
    if solver.shared is None:
        assert (drawn == -1).all()
        return 0
    assert ((drawn >= graph.low) & (drawn <= graph.high)).all()
    assert drawn.max() <= solver.high.max()
    for chip_of in np.unique(drawn, axis=0):
        assert not find_violations(
            chip_of, source, graph.after.entries, num_chips=graph.num_chips, routing=routing
        )
    return len(drawn)
