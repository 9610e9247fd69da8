"""Multilevel partitioning: merge units, move the merged ones, split them again, move the parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import (
    Budget,
    Evaluate,
    Ints,
    Outcome,
    PartitionProblem,
    SearchMonitor,
)
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.analytic.fast_periods import FastPeriods
from mcm_passes.families.ring.moves.walking import Walker
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.families.ring.strategies.coarsening import Coarsening, coarsen
from mcm_passes.families.ring.strategies.resegmentation import late_position, resegment
from mcm_passes.families.ring.strategies.start import find_start
from mcm_passes.mapping.search.named import answer_of, strategy_of
from mcm_passes.mapping.search.search import Search

UNITS_PER_STEP = 25
"""Units that an evaluation in full looks at in the time of one step of refinement."""

HOTTER = 10.0
"""Factor to the temperature of walks after a cycle that brought nothing."""

MOST_WITHOUT_IMPROVEMENT = 4
"""Walks on one level without a better score after which they end."""

PARTS = 8
"""Walks that the steps on one level are divided into, where there are enough."""

LEAST_SHRINKAGE = 0.95
"""Share of units left above which merging has come to its end."""


@dataclass(frozen=True)
@checked(
    coarsest=at_least(1),
    cycles=at_least(1),
    patience=at_least(1),
    tries=at_least(1),
    heat=at_least(0),
)
class Multilevel:
    """V-cycles from the partition of `dp`, for graphs that are too large for full evaluations.

    Each cycle merges neighbouring units that are on one chip, level by level, so that the best
    partition so far stays one of every level. The coarsest problem is solved anew and refined by
    annealed moves; then units are split again, and each level is refined. Moves cost as much
    as what they change. The scheme is that of Hendrickson and Leland 1995, *A Multilevel
    Algorithm for Partitioning Graphs*, with the repeated cycles of Walshaw 2004, *Multilevel
    Refinement for Combinatorial Optimisation Problems*; loads and rules are ours.

    Attributes:
        coarsest: units at which merging ends, at least 1.
        solver: the strategy for the coarsest problem; empty for none.
        heat: temperature at the first step of a walk, as a share of the mean score of a chip;
            rises after cycles that bring nothing.
        cycles: most cycles, at least 1.
        patience: cycles without a better partition after which a try ends, at least 1.
        tries: how often to begin anew with the start, at least 1; each gets an equal part of
            what is left. Where memory is tight, walks end in one of several valleys.
    """

    name: ClassVar[str] = "multilevel"
    summary: ClassVar[str] = "merges units, solves, splits and refines them; for huge graphs"

    coarsest: int = 2_000
    solver: str = "dp"
    heat: float = 3e-4
    cycles: int = 20
    patience: int = 4
    tries: int = 1

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Cycles until the budget is spent; never worse than `dp` at the same budget."""
        search = Search(problem, evaluate, budget)
        reason = find_start(search, evaluate, rng)
        if search.best is None:
            return search.outcome(reason)
        start = search.best
        for tries in range(self.tries, 0, -1):
            if not search.left:
                break
            most = search.left // tries
            cycles = _Cycles(self, search, budget.monitor, rng, start, most)
            without_improvement = 0
            for number in range(self.cycles):
                if not cycles.left or without_improvement == self.patience:
                    break
                heat = min(self.heat * HOTTER**without_improvement, max(self.heat, 1.0))
                without_improvement = 0 if cycles.run(number, heat) else without_improvement + 1
        return search.outcome(reason)


class _Cycles:
    """The cycles of one try.

    Args:
        options: the strategy.
        search: that it belongs to.
        monitor: its caller's; partitions of coarser problems are not for it.
        rng: source of randomness.
        start: the partition that it begins with.
        evaluations: most of them.
    """

    def __init__(
        self,
        options: Multilevel,
        search: Search,
        monitor: SearchMonitor,
        rng: np.random.Generator,
        start: Ints,
        evaluations: int,
    ) -> None:
        self._best, self._best_s = start, search.period_of(start)
        self._end = search.left - evaluations
        self._options = options
        self._search = search
        self._quiet = SearchMonitor(parent=monitor)
        self._rng = rng
        self._steps_per_evaluation = max(search.problem.num_units // UNITS_PER_STEP, 1)

    @property
    def left(self) -> int:
        """Evaluations that the try may still take."""
        return max(self._search.left - self._end, 0)

    def run(self, number: int, heat: float) -> bool:
        """Merges, solves, splits and refines once; whether that is the best of the try so far.

        The result is offered to the search.
        """
        search, options = self._search, self._options
        chip_of, problem = self._best, search.problem
        levels: list[Coarsening] = []
        while problem.num_units > options.coarsest:
            level = coarsen(problem, chip_of, number + len(levels), options.coarsest)
            if level.problem.num_units > LEAST_SHRINKAGE * problem.num_units:
                break
            levels.append(level)
            problem, chip_of = level.problem, level.coarse(chip_of)
        # Half of what is left, so that there is always something for another cycle; and half of
        # that on the coarsest problem, which is what merging is for.
        steps = self.left * self._steps_per_evaluation // 2
        if options.solver and levels and not number:
            chip_of = self._solved(problem, chip_of)
        chip_of = self._refined(problem, chip_of, steps // 2, heat)
        for depth in range(len(levels) - 1, -1, -1):
            finer = levels[depth - 1].problem if depth else search.problem
            chip_of = levels[depth].fine(chip_of)
            chip_of = self._refined(finer, chip_of, steps // 2 // len(levels), heat)
        period_s = search.period(chip_of)
        if not period_s < self._best_s:
            return False
        self._best, self._best_s = chip_of, period_s
        return True

    def _solved(self, problem: PartitionProblem, chip_of: Ints) -> Ints:
        """The solver's partition of a coarse problem, or `chip_of` where that is no worse."""
        periods = FastPeriods(problem)
        budget = self._search.share(self.left, self._quiet)
        name = self._options.solver
        outcome = answer_of(name, strategy_of(name), problem, periods, self._rng, budget)
        self._spend(outcome.evaluations, problem)
        if outcome.chip_of is None or periods(outcome.chip_of) >= periods(chip_of):
            return chip_of
        return outcome.chip_of

    def _refined(self, problem: PartitionProblem, chip_of: Ints, steps: int, heat: float) -> Ints:
        """The best partition of some walks from `chip_of`, which is one of `problem`."""
        walker = Walker(problem, self._best_s)
        walk = walker.walk(chip_of, streams(self._rng, 1))
        part = max(min(max(steps // PARTS, 2 * problem.num_units), steps), 1)
        without_improvement = 0
        while steps >= part and self.left and without_improvement < MOST_WITHOUT_IMPROVEMENT:
            before = float(walk.best_s[0]), float(walk.best_score[0])
            walker.advance(walk, part, heat)
            steps -= part
            self._search.spend(-(-part // self._steps_per_evaluation))
            without_improvement = (
                0 if (walk.best_s[0], walk.best_score[0]) < before else without_improvement + 1
            )
        return self._resegmented(problem, walk.best)

    def _resegmented(self, problem: PartitionProblem, chip_of: Ints) -> Ints:
        """The best cuts of the order that a partition implies: moves lessen loads unevenly."""
        inner = Search(problem, FastPeriods(problem), self._search.share(self.left, self._quiet))
        inner.period(chip_of)
        resegment(inner, problem, chip_of, late_position(problem))
        self._spend(inner.evaluations, problem)
        return chip_of if inner.best is None else inner.best

    def _spend(self, evaluations: int, problem: PartitionProblem) -> None:
        """Counts evaluations of a coarser problem."""
        self._search.spend(evaluations * problem.num_units // self._search.problem.num_units)
