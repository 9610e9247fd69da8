"""Which member of a portfolio found its partition."""

from __future__ import annotations

import numpy as np

from mcm_compiler.partition import Budget
from mcm_passes.partitioning.fast_model import period
from mcm_passes.partitioning.fast_periods import FastPeriods
from mcm_passes.partitioning.solve import solve
from mcm_passes.strategies.named import strategy_of
from mcm_passes.strategies.portfolio import Portfolio

MEMBERS = ("greedy", "dp", "local_search")


def test_the_member_that_is_named_finds_as_good_a_partition_alone(branches):
    problem = branches(chips=7)

    def run(strategy):
        budget = Budget(5000, effort_s=0.5)
        return strategy.solve(problem, FastPeriods(problem), np.random.default_rng(0), budget)

    outcome = run(Portfolio(MEMBERS, slack=0.0))
    assert outcome.found_by == "local_search"
    best_s = period(problem, outcome.chip_of)
    alone = {member: period(problem, run(strategy_of(member)).chip_of) for member in MEMBERS}
    assert alone[outcome.found_by] == best_s == min(alone.values())
    assert run(Portfolio(("dp", "greedy"), slack=0.0)).found_by == "dp"


def test_the_answer_tells_of_it(branches):
    problem = branches()
    rng = np.random.default_rng(0)
    budget = Budget(500, effort_s=0.1)
    for strategy, expected in ((Portfolio(("dp",)), "dp"), (strategy_of("dp"), "")):
        found = solve(problem, strategy, rng, budget, strategy_text="s", cost_model="m")
        assert found.found_by == expected
