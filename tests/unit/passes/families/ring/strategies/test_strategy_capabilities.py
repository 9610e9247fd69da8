"""What strategies say of themselves, and what a portfolio makes of it, built in or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from mcm_compiler.contracts.partition import Budget, Outcome, asks_evaluator, gives_start, learns
from mcm_compiler.registry import STRATEGIES
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import strategy_of


@dataclass(frozen=True)
class Quiet:
    """Says nothing of itself; everything on one chip."""

    name: ClassVar[str] = "test_quiet"
    summary: ClassVar[str] = "one chip"
    starts: ClassVar[list[Any]] = []

    def solve(self, problem: Any, evaluate: Any, rng: Any, budget: Budget) -> Outcome:
        self.starts.append(budget.start)
        chip_of = np.zeros(problem.num_units, np.int32)
        evaluate(chip_of)
        return Outcome(chip_of, 1)


@dataclass(frozen=True)
class Learner:
    """Learned to do what `dp` does; whether it counts as learned is an option."""

    name: ClassVar[str] = "test_learner"
    summary: ClassVar[str] = "as dp"

    learns: bool = True
    gives_start: bool = False

    def solve(self, problem: Any, evaluate: Any, rng: Any, budget: Budget) -> Outcome:
        return ContiguousDp().solve(problem, evaluate, rng, budget)


@pytest.fixture(autouse=True)
def registered():
    Quiet.starts.clear()
    STRATEGIES.add("test_quiet", Quiet, "a test")
    STRATEGIES.add("test_learner", Learner, "a test")
    yield
    STRATEGIES.remove("test_quiet")
    STRATEGIES.remove("test_learner")


def run(members: tuple[str, ...], problem: Any) -> Outcome:
    return Portfolio(members).solve(
        problem, AnalyticPeriods(problem), np.random.default_rng(0), Budget(2000)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dp", (False, False, True)),
        ("dp{orders=2}", (False, False, False)),
        ("local_search{simulated=true}", (True, False, False)),
        ("rl", (False, True, False)),
        ("rl{reward=judge}", (True, True, False)),
        ("portfolio", (False, False, False)),
        ('portfolio{members="dp;local_search{simulated=true}"}', (True, False, False)),
        ("test_quiet", (False, False, False)),
        ("test_learner", (False, True, False)),
        ("test_learner{learns=false,gives_start=true}", (False, False, True)),
    ],
)
def test_what_is_not_said_is_no(text: str, said: tuple[bool, bool, bool]) -> None:
    strategy = strategy_of(text)
    assert (asks_evaluator(strategy), learns(strategy), gives_start(strategy)) == said


def test_what_a_plugin_has_learned_is_told_apart(branches) -> None:
    problem = branches()
    gain = run(("test_quiet", "test_learner"), problem).learned
    assert gain is not None
    assert gain.share > 0.0
    assert not gain.classical.any()
    assert run(("test_quiet", "test_learner{learns=false}"), problem).learned is None


def test_a_plugin_may_give_others_their_start(branches) -> None:
    problem = branches()
    run(("test_learner{gives_start=true}", "test_quiet"), problem)
    (start,) = Quiet.starts
    assert start.problem is problem
    run(("test_learner", "test_quiet"), problem)
    assert Quiet.starts[1] is None
