"""Local search whose moves the evaluator accepts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.evaluation import BatchEvaluator, BatchResults, ResultKind
from mcm_compiler.contracts.partition import (
    Budget,
    Evaluate,
    Floats,
    Ints,
    Outcome,
    PartitionProblem,
)
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.moves.placed_problem import placed_problem
from mcm_passes.families.ring.moves.placement_state import empty_state, fill_state
from mcm_passes.families.ring.moves.proposals import draw_neighbours
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.search.named import answer_of, strategy_of
from mcm_passes.mapping.search.search import Search

POWER = 16
"""Of the loads in a score: high enough that the busiest count most."""


@dataclass(frozen=True)
@checked(batch=at_least(1), memory=at_least(1), sieve=at_least(0))
class JudgeSearch:
    """Starts from another answer, moves units, and lets the evaluator decide which moves stay.

    The fast model only sieves: neighbours that are invalid, or much worse than the best, are not
    shown to the evaluator. Of each batch the neighbour with the lowest score goes on, if it is
    lower than the current one or than the one some batches ago (late acceptance).

    Attributes:
        start: the strategy whose answer it starts from.
        batch: neighbours drawn at once, at least 1.
        sieve: share by which a neighbour may be worse than the best under the fast model.
        memory: batches that late acceptance looks back, at least 1.
    """

    name: ClassVar[str] = "judge_search"
    summary: ClassVar[str] = "moves of units that the simulator accepts"
    asks_evaluator: ClassVar[bool] = True

    start: str = "corrected"
    batch: int = 64
    sieve: float = 0.02
    memory: int = 10

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Searches until the budget is spent; where there is no evaluator, the start is all."""
        search = Search(problem, evaluate, dataclasses.replace(budget, enough_s=0.0))
        half = search.share(search.left, time_share=0.5)
        start = answer_of(self.start, strategy_of(self.start), problem, evaluate, rng, half)
        if budget.evaluator is None or start.chip_of is None:
            return start
        search.spend(start.evaluations)
        for row in (start.chip_of, *start.runners_up):
            search.offer(row, search.period_of(row))
        best = self._walk(search, problem, start.chip_of, budget.evaluator, rng)
        others = tuple(row for _, row in search.kept() if not np.array_equal(row, best))
        return Outcome(best, search.evaluations, bound=start.bound, runners_up=others)

    def _walk(
        self,
        search: Search,
        problem: PartitionProblem,
        start: Ints,
        evaluator: BatchEvaluator,
        rng: np.random.Generator,
    ) -> Ints:
        placed = placed_problem(problem)
        here = empty_state(placed)
        state = streams(rng, 1)
        first = evaluator.evaluate(start[None])
        if first.kind[0] != ResultKind.RUNS:
            return start
        best = np.array(start, np.int32)
        fill_state(placed, here, best)
        best_s = float(first.period_s[0])
        reference_s = best_s
        score = float(_scores(first, reference_s)[0])
        hot = _hottest(first, 0)
        history = [score] * self.memory
        batches = 0
        while left := search.left:
            rows = draw_neighbours(placed, here, hot, min(self.batch, left), state)
            periods = search.periods(rows)
            batches += 1
            promising = rows[: periods.size][
                periods <= max(search.best_period_s, best_s) * (1.0 + self.sieve)
            ]
            slot = batches % self.memory
            if promising.size:
                results = evaluator.evaluate(promising)
                scores = _scores(results, reference_s)
                k = int(scores.argmin())
                if scores[k] < score or scores[k] <= history[slot]:
                    score, hot = float(scores[k]), _hottest(results, k)
                    fill_state(placed, here, promising[k])
                k = int(results.period_s.argmin())
                if results.period_s[k] < best_s:
                    best, best_s = promising[k], float(results.period_s[k])
            history[slot] = score
        return best


def _scores(results: BatchResults, reference_s: float) -> Floats:
    """`[B]`, sums of powers of all loads and the period; infinite where it does not run."""
    loads = np.concatenate([results.chip_busy_s, results.link_busy_s], axis=1) / reference_s
    period = results.period_s / reference_s
    total = (loads**POWER).sum(axis=1) + loads.shape[1] * np.minimum(period, 1e6) ** POWER
    return np.where(results.kind == ResultKind.RUNS, total, np.inf)


def _hottest(results: BatchResults, row: int) -> int:
    """The chip that is busiest, or that the busiest link leaves."""
    loads = np.maximum(results.chip_busy_s[row], results.link_busy_s[row])
    return int(loads.argmax())
