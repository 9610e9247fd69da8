"""Samplers along a linear extension, against enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from mcm_passes.families.ring.solver.adjacent_domains import reach_of_cuts, sample_cuts
from mcm_passes.families.ring.solver.monotone_paths import sample_monotone_paths
from mcm_passes.families.ring.solver.random_stream import streams

DRAWS = 4000


def along(partitions):
    """Those that never step back along the order of the numbers."""
    return [f for f in partitions if all(a <= b for a, b in pairwise(f))]


def weight_of(log_p, f):
    return float(np.exp(sum(log_p[i, c] for i, c in enumerate(f))))


def assert_distribution(drawn, log_p, possible):
    seen = Counter(map(tuple, drawn.tolist()))
    assert set(seen) <= set(possible)
    total = sum(weight_of(log_p, f) for f in possible)
    expected = {f: weight_of(log_p, f) / total * len(drawn) for f in possible}
    chi2 = sum((seen[f] - e) ** 2 / e for f, e in expected.items() if e > 5)
    cells = sum(e > 5 for e in expected.values())
    assert chi2 < cells + 5 * np.sqrt(2 * cells)


def log_weights(rng, n):
    return np.log(rng.uniform(0.05, 1.0, (n, 3)))


def test_monotone_paths_have_the_conditional_distribution(graphs, all_valid):
    rng = np.random.default_rng(1)
    for graph in graphs:
        log_p = log_weights(rng, graph.num_nodes)
        possible = along(all_valid(graph))
        drawn = sample_monotone_paths(log_p, DRAWS, streams(rng, DRAWS))
        assert_distribution(drawn, log_p, possible)


def test_cuts_have_the_conditional_distribution(graphs, all_valid):
    rng = np.random.default_rng(2)
    for graph in graphs:
        order = np.arange(graph.num_nodes, dtype=np.int32)
        log_p = log_weights(rng, graph.num_nodes)
        reach = reach_of_cuts(graph, order)
        possible = along(all_valid(graph, max_span=1))
        drawn = sample_cuts(log_p, reach, DRAWS, streams(rng, DRAWS))
        assert_distribution(drawn, log_p, possible)


def test_forbidden_chips_are_never_drawn():
    rng = np.random.default_rng(3)
    log_p = np.zeros((4, 3))
    log_p[2, :2] = -np.inf
    drawn = sample_monotone_paths(log_p, 200, streams(rng, 200))
    assert (drawn[:, 2] == 2).all()
    assert set(map(tuple, drawn.tolist())) == {(0, 1, 2, 2)}
    log_p[1] = -np.inf
    assert (sample_monotone_paths(log_p, 2, streams(rng, 2)) == -1).all()


def test_a_sharply_peaked_distribution_over_a_long_order():
    """Weights that differ by hundreds of orders of magnitude do not underflow."""
    n, chips = 400, 20
    want = np.repeat(np.arange(chips), n // chips)
    log_p = np.full((n, chips), -900.0)
    log_p[np.arange(n), want] = 0.0
    drawn = sample_monotone_paths(log_p, 3, streams(np.random.default_rng(4), 3))
    assert (drawn == want).all()
