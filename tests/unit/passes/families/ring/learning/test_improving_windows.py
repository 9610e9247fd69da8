"""The best period so far as a constraint: nothing better is lost, nothing hopeless is drawn."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mcm_models.policy.features import graph_features
from mcm_passes.families.ring.contiguous.contiguous_kernels import window_limits
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.families.ring.learning.rollouts import (
    RELAXED,
    ImprovingWindows,
    orders_of_least_span,
)
from mcm_passes.families.ring.solver.batch import filled_rows
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.rule_graph import rule_graph

DRAWS = 300


def along_order(problem):
    units = rule_graph(problem).units
    order = orders_of_least_span(problem, graph_features(problem))[0]
    return units, order


def monotone_paths(problem):
    """All partitions along the order with their periods, as chips by position."""
    units, order = along_order(problem)
    steps = product((0, 1), repeat=order.size - 1)
    rows = [np.concatenate([[0], np.cumsum(step)]) for step in steps]
    rows = np.array([row for row in rows if row[-1] < problem.num_chips], np.int32)
    chips = np.empty_like(rows)
    chips[:, order] = rows
    found = [evaluate(problem, row) for row in filled_rows(problem, units, chips)]
    return rows, np.array([f.period_s if f.valid else np.inf for f in found])


def keeps(row, earliest, possible):
    ends = [i + 1 for i in range(row.size) if i == row.size - 1 or row[i + 1] != row[i]]
    begins = [0, *ends[:-1]]
    return all(earliest[j] <= i for i, j in zip(begins, ends, strict=True)) and all(
        possible[j] for j in ends[:-1]
    )


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_is_as_good_is_left_out(problem_of, seed):
    problem = problem_of(
        seed, n=10, density=0.25, clones=seed % 2, sram=(1 << 20, 16_000)[seed % 3 == 0]
    )
    units, order = along_order(problem)
    rows, periods = monotone_paths(problem)
    windows = windows_along(problem, units[order], count_live=False)
    finite = np.sort(periods[np.isfinite(periods)])
    for limit in [*finite[:: max(finite.size // 4, 1)], np.inf]:
        earliest, possible = window_limits(windows, limit * (1 + 1e-9))
        assert (np.diff(earliest) >= 0).all()
        for row in rows[np.isfinite(periods) & (periods <= limit)]:
            assert keeps(row, earliest, possible)


@pytest.mark.parametrize("seed", range(6))
def test_no_chip_is_given_more_work_than_the_best_period(problem_of, seed):
    problem = problem_of(seed, n=12, density=0.2)
    units, order = along_order(problem)
    _, periods = monotone_paths(problem)
    best_s = float(np.median(periods[np.isfinite(periods)]))
    sampler = ImprovingWindows.of(problem, units[order], lambda: best_s)
    states = streams(np.random.default_rng(seed), DRAWS)
    rows, marginals = sampler.draw(np.zeros((order.size, problem.num_chips)), states)
    work = problem.compute_s[units[order]]
    loads = [np.bincount(row, work).max() for row in rows]
    assert max(loads) <= best_s
    shares = (rows[:, :, None] == np.arange(problem.num_chips)).mean(axis=0)
    np.testing.assert_allclose(np.exp(marginals), shares, atol=0.12)


def test_where_nothing_better_is_possible_limits_are_relaxed(problem_of):
    problem = problem_of(3, n=12, density=0.2)
    units, order = along_order(problem)
    rows, periods = monotone_paths(problem)
    least_s = float(periods.min())
    for best_s in (least_s, least_s / 2, least_s / 100):
        sampler = ImprovingWindows.of(problem, units[order], lambda best_s=best_s: best_s)
        states = streams(np.random.default_rng(0), 50)
        drawn, _ = sampler.draw(np.zeros((order.size, problem.num_chips)), states)
        assert (drawn >= 0).all()
        assert set(map(tuple, drawn.tolist())) <= set(map(tuple, rows.tolist()))
    assert RELAXED[0] < 1.0


def test_memory_counts_before_anything_is_known(problem_of):
    """Weights that fill a chip keep two of them apart from the first draw on."""
    problem = problem_of(5, n=10, density=0.2, sram=9_000)
    units, order = along_order(problem)
    windows = windows_along(problem, units[order], count_live=False)
    earliest, _ = window_limits(windows, np.inf)
    assert (earliest > 0).any()
