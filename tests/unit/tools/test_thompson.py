"""Thompson sampling over the times of units: a plug-in that learns from measured periods."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.registry import STRATEGIES
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tests.generators.branching_problems import TrueTimes, branching_problem

PLUGIN = Path(__file__).parents[3] / "tools" / "reproduce" / "mcm_study" / "thompson.py"


@pytest.fixture(autouse=True)
def plugin():
    load_plugin(PLUGIN)
    yield
    STRATEGIES.remove("thompson")
    for module in [one for one in sys.modules if one.startswith("mcm_plugin_thompson")]:
        del sys.modules[module]


def thompson(**options):
    return STRATEGIES.get("thompson")(**options)


def evaluated(evaluator, outcome):
    return float(evaluator.evaluate(outcome.chip_of[None]).period_s[0])


def run(strategy, problem, evaluator, evaluations=2000):
    return strategy.solve(
        problem,
        AnalyticPeriods(problem),
        np.random.default_rng(0),
        Budget(evaluations, effort_s=0.5, evaluator=evaluator),
    )


def hidden(problem, seed):
    """Times that the problem does not know: a factor of each unit."""
    return np.exp(0.5 * np.random.default_rng(seed).standard_normal(problem.num_units))


def test_measured_periods_lead_to_better_draws():
    problem = branching_problem(chips=5)
    found = {"dp": 0.0, "none": 0.0, "updates": 0.0}
    for seed in range(12):
        evaluator = TrueTimes(problem, hidden(problem, seed))
        for name, strategy in (
            ("dp", ContiguousDp()),
            ("none", thompson(samples=10, updates=False)),
            ("updates", thompson(samples=10)),
        ):
            found[name] += evaluated(evaluator, run(strategy, problem, evaluator, 5000))
    assert found["updates"] < found["none"] < found["dp"]


def test_thompson_measures_as_often_as_it_may_and_is_deterministic():
    problem = branching_problem()
    evaluator = TrueTimes(problem, np.where(np.arange(problem.num_units) % 2, 2.0, 1.0))
    shown = []

    class Counting:
        name = "counting"

        def evaluate(self, partitions):
            shown.extend(row.tobytes() for row in partitions)
            return evaluator.evaluate(partitions)

    first, again = (run(thompson(samples=6), problem, Counting()) for _ in range(2))
    assert first.chip_of.tobytes() == again.chip_of.tobytes()
    assert len(shown) <= 12
    assert len(set(shown)) == len(shown) / 2
    assert evaluated(evaluator, first) == min(
        evaluator.evaluate(np.frombuffer(row, np.int32)[None]).period_s[0] for row in shown
    )
    alone = run(thompson(samples=3), problem, None)
    assert AnalyticPeriods(problem)(alone.chip_of) < np.inf
