"""Solving again with times calibrated on the batch evaluator."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.contracts.partition import (
    Budget,
    Evaluate,
    Floats,
    Ints,
    Outcome,
    PartitionProblem,
)
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.analytic.fast_model import evaluate as explain
from mcm_passes.families.ring.analytic.fast_periods import FastPeriods
from mcm_passes.mapping.search.named import answer_of, strategy_of
from mcm_passes.mapping.search.search import Search

SMALLEST_LOAD_S = 1e-12
"""Loads below this tell nothing about times."""


@dataclass(frozen=True)
@checked(rounds=at_least(1), patience=at_least(1))
class Corrected:
    """Solves, measures the answer on the evaluator, corrects times, and solves again.

    What a chip is busy for on the evaluator, over what the fast model says, is taken as the error
    of the times of the units there; each round sees other sets of units together, so that the
    errors of single units come out (as in the algebraic reconstruction technique, Gordon et al.
    1970). What the period has beyond its busiest chip and link, transfers that are not hidden
    behind work, is put on the links. Ends when no better answer has come for some rounds.

    Attributes:
        solver: the strategy that solves.
        rounds: most times that it solves, at least 1.
        patience: rounds without a better answer after which it ends, at least 1.
    """

    name: ClassVar[str] = "corrected"
    summary: ClassVar[str] = "solves again with times corrected by what the simulator saw"
    asks_evaluator: ClassVar[bool] = True

    solver: str = "cpsat"
    rounds: int = 30
    patience: int = 6

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """The answer that the evaluator likes best; the solver's own where there is none."""
        solver = strategy_of(self.solver)
        if budget.evaluator is None:
            return answer_of(self.solver, solver, problem, evaluate, rng, budget)
        search = Search(problem, evaluate, dataclasses.replace(budget, enough_s=0.0))
        corrected, reason, best = problem, "the budget allows no evaluation", None
        best_s, without_improvement = float("inf"), 0
        bound = None
        for number in range(self.rounds):
            if not search.left or without_improvement >= self.patience:
                break
            part = dataclasses.replace(
                search.share(search.left),
                effort_s=budget.effort_s / self.rounds if number else budget.effort_s,
                enough_s=0.0 if number else budget.enough_s,
            )
            first, periods = copy.deepcopy(rng), FastPeriods(corrected)
            found = answer_of(self.solver, solver, corrected, periods, first, part)
            search.spend(found.evaluations)
            if not number:
                reason, bound = found.reason, found.bound
            if found.chip_of is None:
                break
            search.period(found.chip_of)
            results = budget.evaluator.evaluate(found.chip_of[None])
            without_improvement += 1
            if results.kind[0] == ResultKind.RUNS and results.period_s[0] < best_s:
                best, best_s, without_improvement = found.chip_of, float(results.period_s[0]), 0
            if results.kind[0] != ResultKind.RUNS:
                break
            corrected = corrected_times(corrected, found.chip_of, results)
        outcome = search.outcome(reason, bound)
        if best is None or outcome.chip_of is None or not np.isfinite(evaluate(best)):
            return outcome
        others = tuple(row for _, row in search.kept() if not np.array_equal(row, best))
        return dataclasses.replace(outcome, chip_of=best, runners_up=others)


def corrected_times(
    problem: PartitionProblem, chip_of: Ints, results: BatchResults
) -> PartitionProblem:
    """The problem with times under which `chip_of` takes what the evaluator saw.

    Args:
        problem: the problem, perhaps corrected before.
        chip_of: `[N]`, a valid partition.
        results: of this one partition.
    """
    seen_s: Floats = results.chip_busy_s[0]
    expected = explain(problem, chip_of)
    tells = (expected.chip_busy_s > SMALLEST_LOAD_S) & (seen_s > SMALLEST_LOAD_S)
    # The evaluator's clock is the chip's own as well, so that speeds cancel out.
    ratio = np.where(tells, seen_s / np.where(tells, expected.chip_busy_s, 1.0), 1.0)
    scale = np.where(problem.clonable, 1.0, ratio[chip_of])
    busiest_s = max(float(seen_s.max()), float(results.link_busy_s[0].max(initial=0.0)))
    unhidden = max(float(results.period_s[0]) / busiest_s, 1.0) if busiest_s > 0.0 else 1.0
    limits = dataclasses.replace(
        problem.limits, link_bytes_per_s=problem.limits.link_bytes_per_s / unhidden
    )
    return dataclasses.replace(problem, compute_s=problem.compute_s * scale, limits=limits)
