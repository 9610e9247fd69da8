"""Strategies that ask the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.contracts.partition import Budget, LowerBound, Outcome
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.strategies import portfolio
from mcm_passes.families.ring.strategies.local_search import LocalSearch
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.families.ring.strategies.thompson import Thompson
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.levels import LONG


@pytest.fixture
def case(branches, true_times):
    """A problem whose evaluator finds the units at odd places twice as slow."""
    problem = branches()
    return problem, true_times(problem, np.where(np.arange(problem.num_units) % 2, 2.0, 1.0))


def evaluated(evaluator, outcome):
    return float(evaluator.evaluate(outcome.chip_of[None]).period_s[0])


def run(strategy, problem, evaluator, evaluations=2000):
    return strategy.solve(
        problem,
        AnalyticPeriods(problem),
        np.random.default_rng(0),
        Budget(evaluations, effort_s=0.5, evaluator=evaluator),
    )


@pytest.mark.parametrize("chips", [4, 5, 7])
def test_the_simulator_chooses_among_the_best_of_local_search(branches, true_times, chips):
    problem = branches(chips=chips)
    evaluator = true_times(problem, np.where(np.arange(problem.num_units) % 2, 2.0, 1.0))
    fast = AnalyticPeriods(problem)
    plain = run(LocalSearch(), problem, evaluator)
    found = run(LocalSearch(simulated=True), problem, evaluator)
    assert evaluated(evaluator, found) < evaluated(evaluator, plain)
    known = {row.tobytes() for row in (plain.chip_of, *plain.runners_up)}
    assert {row.tobytes() for row in (found.chip_of, *found.runners_up)} == known
    assert fast(found.chip_of) >= fast(plain.chip_of)
    alone = run(LocalSearch(simulated=True), problem, None)
    assert alone.chip_of.tobytes() == plain.chip_of.tobytes()


MEMBERS = ("dp", "local_search{simulated=true}")


def test_the_evaluator_chooses_among_the_members(case):
    problem, evaluator = case
    chosen = evaluated(evaluator, run(Portfolio(MEMBERS, slack=1.0), problem, evaluator))
    assert chosen <= evaluated(evaluator, run(LocalSearch(simulated=True), problem, evaluator))
    assert chosen < evaluated(evaluator, run(LocalSearch(), problem, evaluator))


def test_slack_bounds_what_the_evaluator_may_choose(case):
    problem, evaluator = case
    fast = AnalyticPeriods(problem)
    best = min(fast(run(s, problem, evaluator).chip_of) for s in (ContiguousDp(), LocalSearch()))
    chosen = run(Portfolio(MEMBERS, slack=0.0), problem, evaluator)
    assert fast(chosen.chip_of) <= best


def test_few_partitions_of_a_large_problem_are_shown_to_the_evaluator(case, monkeypatch):
    problem, evaluator = case
    shown = []

    class Counting:
        name = "counting"

        def evaluate(self, partitions):
            shown.append(len(partitions))
            return evaluator.evaluate(partitions)

    strategy = Portfolio(("dp", "local_search"), slack=1.0)
    monkeypatch.setattr(portfolio, "EVALUATED_UNITS", 3 * problem.num_units)
    run(strategy, problem, Counting())
    assert sum(shown) == 3
    monkeypatch.setattr(portfolio, "EVALUATED_UNITS", problem.num_units - 1)
    assert run(strategy, problem, Counting()).chip_of is not None
    assert sum(shown) == 3


@pytest.mark.parametrize("slower", [1.0, 1.001, 0.999])
def test_no_further_partition_is_shown_to_an_evaluator_that_confirms_the_best(case, slower):
    problem, evaluator = case
    fast, shown = AnalyticPeriods(problem), []

    class Scaled:
        name = "scaled"

        def evaluate(self, partitions):
            shown.append(len(partitions))
            results = evaluator.evaluate(partitions)
            period_s = np.array([fast(row) * slower for row in partitions])
            return results._replace(period_s=period_s)

    chosen = run(Portfolio(("dp", "local_search"), slack=1.0), problem, Scaled())
    assert chosen.chip_of is not None
    assert (shown == [1]) == (slower == 1.0)


def test_a_proven_optimum_does_not_keep_the_evaluator_from_choosing(branches, true_times):
    """The period of `dp` is taken for proven, and the evaluator sees other times."""
    problem = branches()
    evaluator = true_times(problem, np.where(np.arange(problem.num_units) % 2, 2.0, 1.0))
    portfolio = Portfolio(MEMBERS, slack=1.0)
    enough_s = AnalyticPeriods(problem)(run(ContiguousDp(), problem, None).chip_of)
    outcome = portfolio.solve(
        problem,
        AnalyticPeriods(problem),
        np.random.default_rng(0),
        Budget(2000, enough_s=enough_s, evaluator=evaluator),
    )
    assert evaluated(evaluator, outcome) <= evaluated(
        evaluator, run(LocalSearch(simulated=True), problem, evaluator)
    )
    assert outcome.evaluations > run(ContiguousDp(), problem, None).evaluations + 2


class Told:
    """A strategy that answers what it is told, and counts how often it was run."""

    name = "told"
    asks_evaluator = True

    def __init__(self, chip_of, bound=None):
        self.chip_of, self.bound, self.runs = chip_of, bound, 0

    def solve(self, problem, evaluate, rng, budget):
        self.runs += 1
        evaluate(self.chip_of)
        return Outcome(self.chip_of, 1, bound=self.bound)


class Preferring:
    """An evaluator by which one partition takes 1 s and all others take 2 s."""

    name = "preferring"

    def __init__(self, best):
        self.best = best

    def evaluate(self, partitions):
        period_s = np.where((partitions == self.best).all(axis=1), 1.0, 2.0)
        chips = np.zeros((len(partitions), 1))
        return BatchResults(
            np.full(len(partitions), ResultKind.RUNS),
            period_s,
            period_s,
            chips.astype(np.int64),
            chips,
            chips,
        )


class TestAfterTheBoundIsMet:
    """Members of a portfolio whose first one finds and proves an optimum of the fast model."""

    @pytest.fixture
    def run_members(self, monkeypatch):
        def run_members(problem, evaluator, members):
            names = [f"member{k}" for k in range(len(members))]
            strategies = dict(zip(names, members, strict=True))
            monkeypatch.setattr(portfolio.named, "strategy_of", strategies.__getitem__)
            strategy = Portfolio(tuple(names), slack=1.0)
            outcome = run(strategy, problem, evaluator)
            return outcome, [member.runs for member in members]

        return run_members

    @pytest.fixture
    def told(self, branches):
        problem = branches()
        best = run(ContiguousDp(), problem, None).chip_of
        bound = LowerBound(AnalyticPeriods(problem)(best), "claimed")
        worse = np.zeros_like(best)
        assert AnalyticPeriods(problem)(worse) > bound.seconds
        return problem, best, worse, bound

    def test_no_member_runs_without_an_evaluator(self, told, run_members):
        problem, best, worse, bound = told
        members = [Told(worse), Told(best, bound), Told(worse), Told(worse)]
        outcome, runs = run_members(problem, None, members)
        assert runs == [1, 1, 0, 0]
        assert outcome.evaluations == 2
        assert outcome.chip_of.tolist() == best.tolist()

    def test_one_member_that_asks_the_evaluator_has_a_look(self, told, run_members, true_times):
        problem, best, worse, bound = told
        members = [Told(best, bound), Told(worse), Told(best), Told(best)]
        _, runs = run_members(problem, true_times(problem, np.ones(problem.num_units)), members)
        assert runs == [1, 1, 0, 0]

    def test_all_run_as_long_as_the_evaluator_likes_new_answers_better(self, told, run_members):
        problem, best, worse, bound = told
        members = [Told(best, bound), Told(worse), Told(best), Told(best)]
        _, runs = run_members(problem, Preferring(worse), members)
        assert runs == [1, 1, 1, 0]

    def test_members_run_where_the_bound_is_not_met(self, told, run_members, true_times):
        problem, best, worse, _ = told
        members = [Told(best), Told(worse), Told(best), Told(worse)]
        _, runs = run_members(problem, true_times(problem, np.ones(problem.num_units)), members)
        assert runs == [1, 1, 1, 1]


def test_level_3_runs_no_learned_search_on_what_is_proven(branches, true_times, monkeypatch):
    problem = branches()
    evaluator = true_times(problem, np.ones(problem.num_units))
    ran = []

    def counted(text):
        strategy = strategy_of(text)

        class Counted(type(strategy)):
            def solve(self, *arguments):
                ran.append(text)
                return super().solve(*arguments)

        object.__setattr__(strategy, "__class__", Counted)
        return strategy

    monkeypatch.setattr(portfolio.named, "strategy_of", counted)
    outcome = run(strategy_of(LONG.strategy), problem, evaluator)
    assert AnalyticPeriods(problem)(outcome.chip_of) == pytest.approx(outcome.bound.seconds)
    assert ran == ["dp", "cpsat{ideals=500000}", "local_search{simulated=true}"]


def hidden(problem, seed):
    """Times that the problem does not know: a factor of each unit."""
    return np.exp(0.5 * np.random.default_rng(seed).standard_normal(problem.num_units))


def test_measured_periods_lead_to_better_draws(branches, true_times):
    problem = branches(chips=5)
    found = {"dp": 0.0, "none": 0.0, "updates": 0.0}
    for seed in range(12):
        evaluator = true_times(problem, hidden(problem, seed))
        for name, strategy in (
            ("dp", ContiguousDp()),
            ("none", Thompson(samples=10, updates=False)),
            ("updates", Thompson(samples=10)),
        ):
            found[name] += evaluated(evaluator, run(strategy, problem, evaluator, 5000))
    assert found["updates"] < found["none"] < found["dp"]


def test_thompson_measures_as_often_as_it_may_and_is_deterministic(case):
    problem, evaluator = case
    shown = []

    class Counting:
        name = "counting"

        def evaluate(self, partitions):
            shown.extend(row.tobytes() for row in partitions)
            return evaluator.evaluate(partitions)

    first, again = (run(Thompson(samples=6), problem, Counting()) for _ in range(2))
    assert first.chip_of.tobytes() == again.chip_of.tobytes()
    assert len(shown) <= 12
    assert len(set(shown)) == len(shown) / 2
    assert evaluated(evaluator, first) == min(
        evaluator.evaluate(np.frombuffer(row, np.int32)[None]).period_s[0] for row in shown
    )
    alone = run(Thompson(samples=3), problem, None)
    assert AnalyticPeriods(problem)(alone.chip_of) < np.inf
