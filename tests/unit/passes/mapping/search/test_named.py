"""Strategies that are asked by name: what fails, or answers in another form, is named."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from mcm_compiler.components import extras
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import (
    Budget,
    LearnedGain,
    LowerBound,
    Outcome,
    PartitionProblem,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.registry import STRATEGIES
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import answer_of, runnable, strategy_of
from mcm_passes.mapping.solving.solve import solve
from tests.generators.branching_problems import branching_problem


@dataclass(frozen=True)
class Odd:
    """Answers what it is told to."""

    name: ClassVar[str] = "another name than it is registered by"
    summary: ClassVar[str] = "anything"
    answer: ClassVar[Callable[[PartitionProblem, Budget], Any]]

    def solve(self, problem: PartitionProblem, evaluate: Any, rng: Any, budget: Budget) -> Any:
        return type(self).answer(problem, budget)


@pytest.fixture(autouse=True)
def odd() -> Generator[None]:
    STRATEGIES.add("test_odd", Odd, "odd.py")
    yield
    STRATEGIES.remove("test_odd")


@pytest.fixture
def problem() -> PartitionProblem:
    return branching_problem(chips=7)


def asked(problem: PartitionProblem, answer: Callable[[PartitionProblem, Budget], Any]) -> Outcome:
    Odd.answer = staticmethod(answer)
    rng = np.random.default_rng(0)
    return answer_of(
        "test_odd", strategy_of("test_odd"), problem, AnalyticPeriods(problem), rng, Budget(100)
    )


def fault(error: pytest.ExceptionInfo[CompileError]) -> Diagnostic:
    (found,) = error.value.diagnostics
    return found


def zeros(problem: PartitionProblem) -> Any:
    return np.zeros(problem.num_units, np.int32)


def _raise(error: BaseException) -> Any:
    raise error


ODD_ANSWERS: dict[str, tuple[Callable[[PartitionProblem], Any], str]] = {
    "raises": (lambda p: _raise(RuntimeError("lost")), "RuntimeError: lost"),
    "leaves": (lambda p: _raise(SystemExit(0)), "SystemExit: 0"),
    "nothing": (lambda p: None, "it gave a NoneType, not an Outcome"),
    "array": (zeros, "it gave a ndarray, not an Outcome"),
    "short": (lambda p: Outcome(zeros(p)[1:], 1), "chip_of has the shape"),
    "flat": (lambda p: Outcome(zeros(p)[None], 1), "chip_of has the shape"),
    "halves": (lambda p: Outcome(zeros(p) + 0.5, 1), "chip_of holds float64, no whole numbers"),
    "nan": (lambda p: Outcome(zeros(p) * np.nan, 1), "chip_of holds float64"),
    "texts": (lambda p: Outcome(["a"] * p.num_units, 1), "no whole numbers"),
    "negative": (lambda p: Outcome(zeros(p), -1), "evaluations is -1, less than none"),
    "nan count": (lambda p: Outcome(zeros(p), np.nan), "evaluations is a float"),
    "text count": (lambda p: Outcome(zeros(p), "12"), "evaluations is a str"),
    "no reason": (lambda p: Outcome(None, 1, None), "reason is a NoneType"),
    "bound": (lambda p: Outcome(zeros(p), 1, bound=1e-9), "bound is a float, no LowerBound"),
    "nan bound": (lambda p: Outcome(zeros(p), 1, bound=LowerBound(np.nan, "x")), "nan"),
    "proof": (lambda p: Outcome(zeros(p), 1, bound=LowerBound(0.0, "x", p)), "proof of bound"),
    "settled": (lambda p: Outcome(zeros(p), 1, settled_s=np.nan), "settled_s is nan"),
    "runners": (lambda p: Outcome(zeros(p), 1, runners_up=(zeros(p)[1:],)), "runners_up has"),
    "both": (lambda p: Outcome(zeros(p), 1, infeasible=True), "says that there is none"),
    "learned": (lambda p: Outcome(zeros(p), 1, learned=0.5), "learned is a float"),
    "gain": (
        lambda p: Outcome(zeros(p), 1, learned=LearnedGain(0.1, True, zeros(p)[1:], None)),
        "classical of learned has the shape",
    ),
}


@pytest.mark.parametrize("kind", ODD_ANSWERS)
def test_what_is_no_outcome_is_told_with_who_gave_it(problem: PartitionProblem, kind: str) -> None:
    answer, told = ODD_ANSWERS[kind]
    with pytest.raises(CompileError) as caught:
        asked(problem, lambda p, _: answer(p))
    assert (fault(caught).code, fault(caught).at) == ("MCM-X007", "odd.py")
    assert fault(caught).message.startswith("partition strategy 'test_odd' failed: ")
    assert told in fault(caught).message


def test_an_outcome_may_be_loose_and_is_a_copy(problem: PartitionProblem) -> None:
    mine = np.zeros(problem.num_units, np.int64)
    mine[0] = 2**40  # no chip, and never one

    def answer(_: PartitionProblem, __: Budget) -> Outcome:
        rows = (row for row in [mine.tolist()])
        return Outcome(mine, np.int64(7), bound=LowerBound(np.float32(0), "x"), runners_up=rows)

    found = asked(problem, answer)
    assert found.chip_of is not None
    assert found.chip_of.dtype == np.int32
    assert found.chip_of[0] == np.iinfo(np.int32).max
    assert (type(found.evaluations), found.evaluations) == (int, 7)
    assert len(found.runners_up) == 1
    mine[:] = 3
    assert not found.chip_of[1:].any()


@pytest.mark.parametrize("start", ["reorder{start=test_odd}", "portfolio{members=test_odd}"])
def test_a_strategy_within_another_is_named(problem: PartitionProblem, start: str) -> None:
    Odd.answer = staticmethod(lambda p, _: _raise(RuntimeError("lost")))
    rng = np.random.default_rng(0)
    with pytest.raises(CompileError) as caught:
        solve(problem, strategy_of(start), rng, Budget(100), strategy_text=start)
    assert fault(caught).message == "partition strategy 'test_odd' failed: RuntimeError: lost"


def in_portfolio(
    problem: PartitionProblem, answer: Callable[[PartitionProblem, Budget], Any]
) -> Outcome:
    Odd.answer = staticmethod(answer)
    rng = np.random.default_rng(0)
    return Portfolio(("dp", "test_odd")).solve(
        problem, AnalyticPeriods(problem), rng, Budget(500, enough_s=0.0)
    )


@pytest.mark.parametrize(
    ("outcome", "claim"),
    [
        (Outcome(None, 1, bound=LowerBound(1.0, "a guess")), "is faster than 1 s"),
        (Outcome(None, 1, "a guess", infeasible=True), "is valid"),
    ],
    ids=["bound", "infeasible"],
)
def test_a_member_whose_claim_another_refutes_is_named(
    problem: PartitionProblem, outcome: Outcome, claim: str
) -> None:
    with pytest.raises(CompileError) as caught:
        in_portfolio(problem, lambda _, __: outcome)
    assert fault(caught).code == "MCM-P009"
    assert f"strategy 'test_odd' claims that no partition {claim}" in fault(caught).message


def test_what_a_member_says_of_a_period_is_not_taken_for_granted(problem: PartitionProblem) -> None:
    def answer(p: PartitionProblem, budget: Budget) -> Outcome:
        budget.monitor.best(zeros(p), 1e-12)
        return Outcome(None, 1, "nothing")

    evaluate = AnalyticPeriods(problem)
    alone = Portfolio(("dp",)).solve(problem, evaluate, np.random.default_rng(0), Budget(500))
    found = in_portfolio(problem, answer)
    assert alone.chip_of is not None
    assert found.chip_of is not None
    assert evaluate(found.chip_of) == evaluate(alone.chip_of) < evaluate(zeros(problem))


@pytest.mark.parametrize("text", ["rl", "rl-finetune", 'portfolio{members="dp;rl"}'])
def test_a_learner_without_what_learns_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert runnable(text)[0] == strategy_of(text)
    monkeypatch.setitem(extras.MODULES, extras.LEARN, ("no_such_module",))
    with pytest.raises(CompileError) as caught:
        runnable(text)
    assert fault(caught).code == "MCM-L012"
    assert 'pip install "mcm-compiler[learn]"' in str(fault(caught).hint)


@pytest.mark.parametrize("text", ["rl-zeroshot", *(load_level(str(n)).strategy for n in range(4))])
def test_what_draws_and_every_level_do_without(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setitem(extras.MODULES, extras.LEARN, ("no_such_module",))
    assert runnable(text)[0] == strategy_of(text)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("random", "search_baselines.py"),
        ("annealing{chains=2}", "search_baselines.py"),
        ("kahip", "peers.py"),
        ("judge_search", "local_search{simulated=true}"),
        ("portfolio{members=corrected}", "local_search{simulated=true}"),
        ("greedy", "dp{orders=1}"),
        ("stages{rounds=2}", "local_search"),
        ("portfolio{members=lns}", "reorder{start=known,tolerance=0.05}"),
    ],
)
def test_what_has_left_the_compiler_is_named_with_its_place(
    problem: PartitionProblem, name: str, place: str
) -> None:
    with pytest.raises(CompileError) as caught:
        strategy_of(name).solve(
            problem, AnalyticPeriods(problem), np.random.default_rng(0), Budget(10)
        )
    assert fault(caught).code == "MCM-U003"
    assert place in str(fault(caught).hint)
