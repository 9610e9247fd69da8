"""Strategies that ask the judge."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.partition import Budget
from mcm_passes.partitioning.contiguous_dp import ContiguousDp
from mcm_passes.partitioning.fast_periods import FastPeriods
from mcm_passes.strategies import portfolio
from mcm_passes.strategies.corrected import Corrected
from mcm_passes.strategies.judge_search import JudgeSearch
from mcm_passes.strategies.local_search import LocalSearch
from mcm_passes.strategies.portfolio import Portfolio


@pytest.fixture
def case(branches, true_times):
    """A problem whose judge finds the units at odd places twice as slow."""
    problem = branches()
    return problem, true_times(problem, np.where(np.arange(problem.num_units) % 2, 2.0, 1.0))


def judged(judge, outcome):
    return float(judge.judge(outcome.chip_of[None]).period_s[0])


def run(strategy, problem, judge, evaluations=2000):
    return strategy.solve(
        problem,
        FastPeriods(problem),
        np.random.default_rng(0),
        Budget(evaluations, effort_s=0.5, judge=judge),
    )


@pytest.mark.parametrize("strategy", [Corrected("dp"), JudgeSearch("corrected{solver=dp}")])
def test_the_judge_likes_it_better_than_the_uncorrected_solution(case, strategy):
    problem, judge = case
    start = judged(judge, run(ContiguousDp(), problem, judge))
    assert judged(judge, run(strategy, problem, judge)) < 0.97 * start


def test_the_judge_chooses_among_the_members(case):
    problem, judge = case
    members = ("dp", 'corrected{solver="dp"}', "local_search")
    chosen = judged(judge, run(Portfolio(members, slack=1.0), problem, judge))
    assert chosen <= judged(judge, run(Corrected("dp"), problem, judge))
    assert chosen < judged(judge, run(ContiguousDp(), problem, judge))


def test_slack_bounds_what_the_judge_may_choose(case):
    problem, judge = case
    fast = FastPeriods(problem)
    members = ("dp", 'corrected{solver="dp"}', "local_search")
    best = min(fast(run(s, problem, judge).chip_of) for s in (ContiguousDp(), LocalSearch()))
    chosen = run(Portfolio(members, slack=0.0), problem, judge)
    assert fast(chosen.chip_of) <= best


def test_few_partitions_of_a_large_problem_are_shown_to_the_judge(case, monkeypatch):
    problem, judge = case
    shown = []

    class Counting:
        name = "counting"

        def judge(self, partitions):
            shown.append(len(partitions))
            return judge.judge(partitions)

    strategy = Portfolio(("dp", "local_search"), slack=1.0)
    monkeypatch.setattr(portfolio, "JUDGED_UNITS", 3 * problem.num_units)
    run(strategy, problem, Counting())
    assert shown == [3]
    monkeypatch.setattr(portfolio, "JUDGED_UNITS", problem.num_units - 1)
    assert run(strategy, problem, Counting()).chip_of is not None
    assert shown == [3]


def test_without_a_judge_corrected_solves_once(branches):
    problem = branches()
    alone = run(ContiguousDp(), problem, None)
    outcome = run(Corrected("dp"), problem, None)
    assert outcome.evaluations == alone.evaluations
    assert outcome.chip_of.tobytes() == alone.chip_of.tobytes()


def test_a_proven_optimum_does_not_keep_the_judge_from_choosing(branches, true_times):
    """The period of `dp` is taken for proven, and the judge sees other times."""
    problem = branches()
    judge = true_times(problem, np.where(np.arange(problem.num_units) % 2, 2.0, 1.0))
    portfolio = Portfolio(("dp", 'corrected{solver="dp"}'), slack=1.0)
    enough_s = FastPeriods(problem)(run(ContiguousDp(), problem, None).chip_of)
    outcome = portfolio.solve(
        problem,
        FastPeriods(problem),
        np.random.default_rng(0),
        Budget(2000, enough_s=enough_s, judge=judge),
    )
    assert judged(judge, outcome) <= judged(judge, run(Corrected("dp"), problem, judge))
    assert outcome.evaluations > run(ContiguousDp(), problem, None).evaluations + 2
