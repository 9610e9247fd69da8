"""Which member of a portfolio found its partition."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Budget, Outcome
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.strategies import portfolio
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.mapping.machine.evaluation import period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.solve import solve

MEMBERS = ("dp{orders=1}", "dp", "local_search")


def test_the_member_that_is_named_finds_as_good_a_partition_alone(branches):
    problem = branches(chips=7)

    def run(strategy):
        budget = Budget(5000, effort_s=0.5)
        return strategy.solve(problem, AnalyticPeriods(problem), np.random.default_rng(0), budget)

    outcome = run(Portfolio(MEMBERS, slack=0.0))
    assert outcome.found_by == "local_search"
    best_s = period(problem, outcome.chip_of)
    alone = {member: period(problem, run(strategy_of(member)).chip_of) for member in MEMBERS}
    # The last member has what the others left as well.
    assert best_s <= alone[outcome.found_by] == min(alone.values())
    assert run(Portfolio(("dp", "dp{orders=1}"), slack=0.0)).found_by == "dp"


def test_the_answer_tells_of_it(branches):
    problem = branches()
    rng = np.random.default_rng(0)
    budget = Budget(500, effort_s=0.1)
    for strategy, expected in ((Portfolio(("dp",)), "dp"), (strategy_of("dp"), "")):
        found = solve(problem, strategy, rng, budget, strategy_text="s")
        assert found.found_by == expected


class Careless:
    """Tells of a partition, changes the array afterwards, and returns wide rows of all sorts."""

    name = "careless"
    summary = ""

    def solve(self, problem, evaluate, rng, budget):
        good = ContiguousDp().solve(problem, evaluate, rng, budget).chip_of
        shared = np.zeros(problem.num_units, np.int32)
        budget.monitor.best(shared, evaluate(shared))
        shared[:] = good
        wide = good.astype(np.int64)
        wide[problem.clonable] = 1
        return Outcome(shared, 2, runners_up=(wide, np.zeros(problem.num_units, np.int64)))


def test_whatever_way_a_member_tells_of_it_the_partition_has_a_finder(branches, monkeypatch):
    problem = branches(chips=7)
    monkeypatch.setattr(
        portfolio.named,
        "strategy_of",
        lambda text: Careless() if text == "careless" else strategy_of(text),
    )
    for members, expected in ((("careless", "dp"), "careless"), (("dp", "careless"), "dp")):
        found = Portfolio(members).solve(
            problem, AnalyticPeriods(problem), np.random.default_rng(0), Budget(500)
        )
        assert found.found_by == expected


def test_dp_runs_once_for_all_members_that_begin_with_it(branches, monkeypatch):
    problem = branches(chips=7)
    runs = []
    solve_dp = ContiguousDp.solve

    def counted(self, problem, evaluate, rng, budget):
        runs.append(problem)
        return solve_dp(self, problem, evaluate, rng, budget)

    def run(members):
        budget = Budget(2000, effort_s=0.5)
        strategy = Portfolio(members, slack=0.0)
        return strategy.solve(problem, AnalyticPeriods(problem), np.random.default_rng(0), budget)

    monkeypatch.setattr(ContiguousDp, "solve", counted)
    shared = run(("dp", "local_search", "reorder"))
    assert runs == [problem]
    # Other options find something else, which is nobody's start.
    apart = run(("dp{orders=1}", "local_search", "reorder"))
    assert runs == [problem] * 4
    assert np.array_equal(shared.chip_of, apart.chip_of)


def test_the_last_member_also_gets_the_evaluations_that_the_others_left(branches, monkeypatch):
    problem = branches(chips=7)
    given = []

    class Noting(Careless):
        def solve(self, problem, evaluate, rng, budget):
            given.append(budget.evaluations)
            return super().solve(problem, evaluate, rng, budget)

    def run(members):
        monkeypatch.setattr(portfolio.named, "strategy_of", lambda _: Noting())
        given.clear()
        return Portfolio(members).solve(
            problem, AnalyticPeriods(problem), np.random.default_rng(0), Budget(500)
        )

    run(("one",))
    assert given == [500]
    run(("one", "two", "three"))
    # Each spends two.
    assert given == [500, 500, 3 * 500 - 4]
