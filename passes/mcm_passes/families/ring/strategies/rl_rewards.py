"""Rewards within the budget of a search, from the fast model or from the simulator."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.partition import Floats, Ints, LowerBound, Outcome
from mcm_passes.families.ring.learning.rewards import LEAST_S, relative_throughput
from mcm_passes.mapping.search.search import Search

Reward = Literal["fast", "judge"]
"""What a policy learns from: the fast model (MCM, section 5.2), or the simulator in place of
hardware (MCM, section 5.3)."""


class SearchRewards:
    """Implements `rewards.Rewards`, and keeps the best by the same measure.

    Every partition is evaluated under the fast model, which counts; those that run there are shown
    to the evaluator where there is one. What the budget no longer allows earns nothing.

    Args:
        search: the budget, and the best under the fast model.
        evaluator: the simulator, or None for the fast model's periods.

    Attributes:
        baseline_s: period that counts as a reward of 1: all work in balance over all chips.
    """

    def __init__(self, search: Search, evaluator: BatchEvaluator | None) -> None:
        problem = search.problem
        self.baseline_s = max(float(problem.compute_s.sum()) / problem.num_chips, LEAST_S)
        self._search = search
        self._evaluator = evaluator
        self._best: Ints | None = None
        self._best_s = float("inf")

    @property
    def best(self) -> Ints | None:
        """The best partition so far, by the evaluator where there is one."""
        return self._search.best if self._evaluator is None else self._best

    @property
    def best_s(self) -> float:
        """The period of `best`; infinite where there is none."""
        return self._search.best_period_s if self._evaluator is None else self._best_s

    def evaluate(self, partitions: Ints) -> Floats:
        """`[B]`, throughput of each of `partitions[B, N]` over that of the baseline."""
        periods = np.full(len(partitions), np.inf)
        found = self._search.periods(partitions)
        periods[: found.size] = self._evaluated(partitions[: found.size], found)
        return relative_throughput(periods, self.baseline_s)

    def offer(self, partitions: Ints) -> None:
        """Takes in partitions that were evaluated before."""
        periods = np.array([self._search.period_of(row) for row in partitions])
        for row, period_s in zip(partitions, periods.tolist(), strict=True):
            self._search.offer(row, period_s)
        self._evaluated(partitions, periods)

    def outcome(self, reason: str, bound: LowerBound | None = None) -> Outcome:
        """As `Search.outcome`, with the best by the evaluator in front where there is one."""
        found = self._search.outcome(reason, bound)
        if self._best is None:
            return found
        others = tuple(row for _, row in self._search.kept() if not np.array_equal(row, self._best))
        return Outcome(self._best, found.evaluations, bound=bound, runners_up=others)

    def _evaluated(self, partitions: Ints, periods: Floats) -> Floats:
        runs = np.flatnonzero(np.isfinite(periods))
        if self._evaluator is None or not runs.size:
            return periods
        results = self._evaluator.evaluate(partitions[runs])
        evaluated = np.full(len(partitions), np.inf)
        evaluated[runs] = np.where(results.kind == ResultKind.RUNS, results.period_s, np.inf)
        k = int(evaluated.argmin())
        if evaluated[k] < self._best_s:
            self._best, self._best_s = np.array(partitions[k], np.int32), float(evaluated[k])
        return evaluated
