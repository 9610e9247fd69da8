"""The baselines of the MCM paper: a plug-in whose answers are valid and repeatable."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, Outcome
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.registry import STRATEGIES
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.evaluation import period
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import strategy_of
from tests.generators.branching_problems import branching_problem

PLUGIN = Path(__file__).parents[3] / "tools" / "reproduce" / "mcm_study" / "search_baselines.py"
BOTH = ("random", "annealing")


@pytest.fixture(autouse=True)
def plugin() -> Generator[None]:
    load_plugin(PLUGIN)
    yield
    for name in BOTH:
        STRATEGIES.remove(name)
    for module in [one for one in sys.modules if one.startswith("mcm_plugin_search_baselines")]:
        del sys.modules[module]


def run(name: str, problem: Any, evaluations: int = 700, **budget: Any) -> Outcome:
    rng = np.random.default_rng(3)
    asked = Budget(evaluations, **budget)
    return strategy_of(name).solve(problem, AnalyticPeriods(problem), rng, asked)


@pytest.mark.parametrize("routing", ["relay", "strict"])
@pytest.mark.parametrize("name", BOTH)
def test_answers_are_valid_repeatable_and_within_the_budget(name: str, routing: str) -> None:
    problem = branching_problem(routing, pins=((0, 0), (5, 1)))
    first, second = run(name, problem), run(name, problem)
    assert first.chip_of is not None
    assert second.chip_of is not None
    assert lower_bound(problem).seconds <= period(problem, first.chip_of) < np.inf
    assert first.chip_of[[0, 5]].tolist() == [0, 1]
    assert first.chip_of.tobytes() == second.chip_of.tobytes()
    assert first.evaluations == second.evaluations <= 700
    assert run(name, problem, 100_000, enough_s=1.0).evaluations <= 256


@pytest.mark.parametrize("name", BOTH)
def test_what_cannot_be_drawn_has_a_reason(name: str) -> None:
    assert "memory" in run(name, branching_problem(sram=5000), 200).reason
    assert "pins" in run(name, branching_problem(pins=((1, 3), (2, 1))), 200).reason


@pytest.mark.parametrize(
    "text", ["random{batch=0}", "annealing{share=0}", "annealing{cold=1}", "annealing{chains=0}"]
)
def test_options_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        strategy_of(text)
    assert caught.value.diagnostics[0].code == "MCM-U002"
