"""Monotone paths of fitting windows, against enumeration."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import pytest

from mcm_passes.families.ring.solver.monotone_paths import (
    monotone_path_marginals,
    sample_monotone_paths,
    sample_windowed,
)
from mcm_passes.families.ring.solver.random_stream import streams

DRAWS = 4000


def monotone_paths(log_p, earliest, open_cuts):
    """All of them with their weights."""
    n, chips = log_p.shape
    found = {}
    for f in combinations_with_replacement(range(chips), n):
        if sorted(set(f)) != list(range(f[-1] + 1)):
            continue
        ends = [i + 1 for i in range(n) if i == n - 1 or f[i + 1] != f[i]]
        begins = [0, *ends[:-1]]
        fits = all(earliest[j] <= i for i, j in zip(begins, ends, strict=True))
        weight = np.exp(sum(log_p[i, c] for i, c in enumerate(f)))
        if fits and all(open_cuts[j] for j in ends[:-1]) and weight > 0.0:
            found[f] = weight
    return found


def drawn_case(seed):
    rng = np.random.default_rng(seed)
    n, chips = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    log_p = np.log(rng.uniform(0.01, 1.0, (n, chips)))
    log_p[rng.random((n, chips)) < 0.08] = -np.inf
    load, limit = rng.uniform(0.1, 1.0, n), rng.uniform(0.8, 2.5)
    before = np.concatenate([[0.0], np.cumsum(load)])
    earliest = np.searchsorted(before, before - limit).astype(np.int64)
    return log_p, earliest, rng.random(n + 1) < 0.8


@pytest.mark.parametrize("seed", range(60))
def test_draws_and_marginals_are_those_of_the_enumeration(seed):
    log_p, earliest, open_cuts = drawn_case(seed)
    possible = monotone_paths(log_p, earliest, open_cuts)
    states = streams(np.random.default_rng(seed), DRAWS)
    drawn, marginals = sample_windowed(log_p, earliest, open_cuts, DRAWS, states)
    marginals = np.exp(marginals)
    if not possible:
        assert (drawn == -1).all()
        assert (marginals == 0).all()
        return
    total = sum(possible.values())
    expected = np.zeros_like(marginals)
    for f, weight in possible.items():
        expected[np.arange(len(f)), f] += weight / total
    np.testing.assert_allclose(marginals, expected, atol=1e-11)
    seen = Counter(map(tuple, drawn.tolist()))
    assert set(seen) <= set(possible)
    counts = {f: weight / total * DRAWS for f, weight in possible.items()}
    chi2 = sum((seen[f] - e) ** 2 / e for f, e in counts.items() if e > 5)
    cells = sum(e > 5 for e in counts.values())
    assert chi2 < cells + 5 * np.sqrt(2 * cells)


def test_without_limits_it_is_the_same_distribution():
    rng = np.random.default_rng(3)
    log_p = np.log(rng.uniform(1e-6, 1.0, (40, 6)))
    earliest, open_cuts = np.zeros(41, np.int64), np.ones(41, np.bool_)
    drawn, marginals = sample_windowed(log_p, earliest, open_cuts, 2000, streams(rng, 2000))
    np.testing.assert_allclose(
        marginals[:, 1:], monotone_path_marginals(log_p)[:, 1:], rtol=1e-6, atol=1e-3
    )
    means = [
        drawn.mean(axis=0),
        sample_monotone_paths(log_p, 2000, streams(rng, 2000)).mean(axis=0),
    ]
    np.testing.assert_allclose(*means, atol=0.2)


def test_weights_of_any_size_over_a_long_order():
    rng = np.random.default_rng(4)
    n, chips = 3000, 36
    log_p = rng.normal(0.0, 200.0, (n, chips))
    earliest = np.maximum(np.arange(n + 1) - 100, 0)
    open_cuts = np.ones(n + 1, np.bool_)
    drawn, marginals = sample_windowed(log_p, earliest, open_cuts, 8, streams(rng, 8))
    for row in drawn:
        assert set(np.diff(row)) <= {0, 1}
        assert np.bincount(row).max() <= 100
    np.testing.assert_allclose(np.exp(marginals).sum(axis=1), 1.0, atol=1e-6)
