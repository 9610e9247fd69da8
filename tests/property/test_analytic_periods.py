"""The compiled period of the fast model against the one that explains itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.strategies.local_search import LocalSearch
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.machine.periods import CHUNK, AnalyticPeriods
from tests.generators.partition_problems import make_problem, problems


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_periods_are_those_of_the_fast_model(problem, random):
    n, chips = problem.num_units, problem.num_chips
    rows = np.array(
        [sorted(random.randint(-1, chips) for _ in range(n)) for _ in range(6)]
        + [[random.randint(0, chips - 1) for _ in range(n)] for _ in range(6)],
        np.int32,
    ).reshape(12, n)
    expected = [period(problem, row) for row in rows]
    fast = AnalyticPeriods(problem, few=0)
    assert fast.periods(rows).tolist() == expected
    assert [fast(row) for row in rows] == expected


@given(problems())
@settings(max_examples=20)
def test_threads_change_nothing(problem):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, problem.num_chips, (3 * CHUNK, problem.num_units)).astype(np.int32)
    rows.sort(axis=1)
    fast = AnalyticPeriods(problem, few=0)
    assert fast.periods(rows).tolist() == [fast(row) for row in rows]


def test_a_few_are_evaluated_in_full_with_the_same_result():
    problem = make_problem([1, 2, 3], [(0, 1), (1, 2)])
    rows = np.array([[0, 1, 1], [0, 1, 2], [0, 0, 0]], np.int32)
    fast = AnalyticPeriods(problem, few=4)
    first = fast.periods(rows).tolist()
    assert fast.periods(rows).tolist() == first
    assert first == [period(problem, row) for row in rows]


def test_pins_count():
    problem = make_problem([1, 2, 3], [(0, 1), (1, 2)], pins=((1, 1),))
    fast = AnalyticPeriods(problem, few=0)
    for row in ([0, 1, 1], [0, 0, 1], [0, 1, 2]):
        chip_of = np.array(row, np.int32)
        assert fast(chip_of) == period(problem, chip_of)
    assert np.isfinite(fast(np.array([0, 1, 2], np.int32)))
    assert np.isinf(fast(np.array([0, 0, 1], np.int32)))


@given(problems())
@settings(max_examples=10)
def test_searches_return_valid_partitions_that_no_bound_contradicts(problem):
    bound = lower_bound(problem).seconds
    members = Portfolio(("dp", "local_search"))
    for strategy in (LocalSearch(round=20), members):
        outcome = strategy.solve(
            problem, AnalyticPeriods(problem, few=0), np.random.default_rng(0), Budget(100)
        )
        if outcome.chip_of is None:
            assert outcome.reason
            continue
        result = evaluate(problem, outcome.chip_of)
        assert result.valid
        assert result.period_s >= bound * (1 - 1e-9)
