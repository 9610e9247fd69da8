"""Search where only the period of a partition can be measured: Thompson sampling over times.

After Thompson 1933, *On the Likelihood that One Unknown Probability Exceeds Another in View of the
Evidence of Two Samples*. Each step draws times of all units from what measured periods say of them,
and solves the problem with these exactly. So it measures where a better partition may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.partition import Budget, Evaluate, Ints, Outcome, PartitionProblem
from mcm_compiler.measuring.busy_times import updated_times
from mcm_compiler.text.option_fields import at_least, between, checked
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp, dp_outcome
from mcm_passes.mapping.machine.evaluation import evaluate as placed
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.search import Search

LEAST = 0.05
"""Share of its expected time that a unit is drawn at least."""


@dataclass(frozen=True)
@checked(samples=at_least(1), noise=between(0, 1), orders=at_least(1))
class Thompson:
    """Measures `dp`'s partitions under drawn times, and updates the times by measured periods.

    A period is the busy time of the chip that would be busiest by the expected times. Times have an
    unknown factor in common, one for each type of op and one of their own.

    Attributes:
        samples: partitions that are measured, at least 1.
        noise: repeat error of a period, as a share.
        orders: topological orders that are cut for each, at least 1.
        updates: whether times are updated; without, all draws are from what is expected before.
    """

    name: ClassVar[str] = "thompson"
    summary: ClassVar[str] = "dp on drawn times of units, updated by measured periods"
    asks_evaluator: ClassVar[bool] = True

    samples: int = 20
    noise: float = 0.01
    orders: int = 3
    updates: bool = True

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Measures with the budget's evaluator, or else by `evaluate`."""
        search = Search(problem, evaluate, replace(budget, enough_s=0.0))
        first = dp_outcome(problem, evaluate, rng, budget)
        if first.chip_of is None:
            return first
        search.spend(first.evaluations)
        rows, periods = [first.chip_of], [_measured(first.chip_of, evaluate, budget)]
        mean, covariance = self._expected(problem, problem.compute_s, [], [])
        for _ in range(self.samples - 1):
            if search.must_stop():
                break
            if self.updates:
                mean, covariance = self._expected(problem, mean, rows, periods)
            root = np.linalg.cholesky(covariance + 1e-9 * np.trace(covariance) * np.eye(len(mean)))
            draw = mean + root @ rng.standard_normal(len(mean))
            drawn = _with_times(problem, np.maximum(draw, LEAST * mean))
            found = ContiguousDp(self.orders).solve(
                drawn, AnalyticPeriods(drawn), rng, search.share(search.left)
            )
            search.spend(found.evaluations)
            if found.chip_of is None or any((found.chip_of == row).all() for row in rows):
                continue
            rows.append(found.chip_of)
            periods.append(_measured(found.chip_of, evaluate, budget))
        best = np.argsort(periods, kind="stable").tolist()
        return replace(
            first,
            chip_of=rows[best[0]],
            evaluations=search.evaluations,
            runners_up=tuple(rows[k] for k in best[1:] if periods[k] < float("inf")),
        )

    def _expected(
        self,
        problem: PartitionProblem,
        mean: Floats,
        rows: Sequence[Ints],
        periods: Sequence[float],
    ) -> tuple[Floats, Floats]:
        """Times and their covariance after measurements, with `mean` to find the busiest chips."""
        expected = _with_times(problem, mean)
        sums: list[Floats] = []
        busy_s: list[float] = []
        for row, period_s in zip(rows, periods, strict=True):
            cost = placed(expected, row)
            chip = int(cost.chip_busy_s.argmax())
            if period_s == float("inf") or cost.channel_busy_s.max(initial=0.0) > cost.period_s:
                continue
            there = (cost.chip_of == chip).astype(np.float64)
            there[problem.clonable] = cost.copies[:, chip]
            speed = float(problem.chip_speed[chip])
            other_s = float(cost.chip_busy_s[chip]) * speed - float(there @ mean)
            if period_s * speed > other_s:
                sums.append(there)
                busy_s.append(period_s * speed - other_s)
        counts = np.array(sums).reshape(len(sums), problem.num_units)
        noise = np.full(len(sums), self.noise)
        kinds = problem.op_types or problem.names
        return updated_times(problem.compute_s, kinds, counts, np.array(busy_s), noise)


def _measured(chip_of: Ints, evaluate: Evaluate, budget: Budget) -> float:
    if budget.evaluator is None:
        return evaluate(chip_of)
    return float(budget.evaluator.evaluate(chip_of[np.newaxis]).period_s[0])


def _with_times(problem: PartitionProblem, seconds: Floats) -> PartitionProblem:
    """The same units with other times; kinds of chips keep their proportions."""
    kinds = problem.kinds
    if kinds is not None:
        known = np.where(problem.compute_s > 0.0, problem.compute_s, 1.0)
        kinds = replace(kinds, unit_s=kinds.unit_s * np.tile(seconds / known, len(kinds.names)))
    return replace(problem, compute_s=seconds, kinds=kinds)
