"""State of a search: the budget that is left, the best partitions and the best bound so far."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from bisect import insort
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts import partition

RUNNERS_UP = 12
"""Distinct partitions that a search remembers."""

ENOUGH = 1e-9
"""Relative distance to a period that cannot be beaten at which a search stops."""

NO_BOUND = partition.LowerBound(0.0, "nothing proven")


class Search:
    """One run of a strategy within its budget.

    Attributes:
        problem: what is to be placed.
        evaluate: the period of a placement of it.
        budget: of the search.
        best: `[N]`, the best valid partition so far, or None.
        best_period_s: its period; infinite where there is none.
        evaluations: partitions evaluated so far.
        bound: the best bound so far.
        settled_s: as in `Outcome`, the largest so far.
        exhausted: whether it is proven that no partition exists.
    """

    def __init__(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        budget: partition.Budget,
        most: int = RUNNERS_UP,
    ) -> None:
        """`most` is the number of distinct partitions that it remembers."""
        self.problem, self.evaluate, self.budget = problem, evaluate, budget
        self.best: partition.Ints | None = None
        self.best_period_s = float("inf")
        self.evaluations = 0
        self.bound = NO_BOUND
        self.settled_s = 0.0
        self.exhausted = False
        self._most = most
        self._start = time.monotonic()
        # Sorted by period, then by what came first.
        self._kept: list[tuple[float, int, partition.Ints]] = []
        self._known: set[bytes] = set()

    @property
    def left(self) -> int:
        """Evaluations that may still be made; 0 once the search is to end.

        Time and cancellation count once something was evaluated or offered, so that there is an
        answer.
        """
        begun = self.evaluations > 0 or self.best is not None
        if begun and (self.enough or not self.awaited):
            return 0
        return max(self.budget.evaluations - self.evaluations, 0)

    @property
    def awaited(self) -> bool:
        """True if the search has time, and nobody cancelled it."""
        return self.seconds_left != 0.0 and not self.budget.monitor.cancelled

    @property
    def seconds_left(self) -> float | None:
        """Wall time left, or None where it is not limited."""
        if self.budget.seconds is None:
            return None
        return max(self.budget.seconds - (time.monotonic() - self._start), 0.0)

    def must_stop(self) -> bool:
        """True if the budget is spent or the caller has cancelled."""
        return not self.awaited or self.evaluations >= self.budget.evaluations

    @property
    def enough(self) -> bool:
        """True if the best so far cannot be beaten, or by no more than the gap of the budget."""
        share = max(ENOUGH, self.budget.gap)
        return self.best_period_s <= self.budget.enough_s * (1.0 + share)

    def share(
        self,
        evaluations: int,
        monitor: partition.SearchMonitor | None = None,
        time_share: float = 1.0,
    ) -> partition.Budget:
        """A budget for a part of this search: some of its evaluations, and of the time left."""
        seconds = self.seconds_left
        return dataclasses.replace(
            self.budget,
            evaluations=min(evaluations, self.left),
            seconds=None if seconds is None else seconds * time_share,
            monitor=monitor or self.budget.monitor,
        )

    def periods(self, partitions: partition.Ints) -> partition.Floats:
        """Evaluates the first rows of `partitions[B, N]` that the budget allows; keeps the best.

        Returns:
            `[min(B, left)]`, seconds.
        """
        rows = partitions[: self.left]
        if isinstance(self.evaluate, partition.EvaluatesBatches):
            found = self.evaluate.periods(rows)
        else:
            found = np.array([self.evaluate(row) for row in rows], np.float64)
        self.evaluations += len(rows)
        for k in np.argsort(found, kind="stable")[: self._most].tolist():
            self.offer(rows[k], float(found[k]))
        return found

    def period(self, chip_of: partition.Ints) -> float:
        """Evaluates one partition and keeps it if it is good; infinite once the budget is spent."""
        found = self.periods(np.asarray(chip_of)[None])
        return float(found[0]) if found.size else float("inf")

    def period_of(self, chip_of: partition.Ints) -> float:
        """The period of a partition that was evaluated before, which costs nothing again."""
        return float(self.evaluate(chip_of))

    def admit(self, chip_of: partition.Ints) -> bool:
        """Evaluates a partition in any case, and keeps it if it is good; whether it is valid."""
        self.evaluations += 1
        period_s = self.period_of(chip_of)
        self.offer(chip_of, period_s)
        return period_s < float("inf")

    def recall(self, *rows: partition.Ints | None) -> None:
        """Offers partitions that were evaluated before; None stands for none."""
        for row in rows:
            if row is not None:
                self.offer(row, self.period_of(row))

    def spend(self, evaluations: int) -> None:
        """Counts evaluations that compiled code or a part of the search made."""
        self.evaluations += evaluations

    def offer(self, chip_of: partition.Ints, period_s: float) -> None:
        """Keeps a copy of an evaluated partition if it is among the best."""
        worst = self._kept[-1][0] if len(self._kept) == self._most else float("inf")
        if not period_s < worst:
            return
        row = np.array(chip_of, np.int32)
        key = np.where(self.problem.clonable, 0, row).astype(np.int32).tobytes()
        if key in self._known:
            return
        self._known.add(key)
        insort(self._kept, (period_s, self.evaluations, row), key=lambda kept: kept[0])
        del self._kept[self._most :]
        if period_s < self.best_period_s:
            self.best, self.best_period_s = row, period_s
            self.budget.monitor.best(row, period_s)

    def kept(self) -> list[tuple[float, partition.Ints]]:
        """The best distinct partitions, best first, with their periods."""
        return [(period_s, row) for period_s, _, row in self._kept]

    def prove(self, bound: partition.LowerBound | None) -> bool:
        """Keeps a bound if it is the best; whether it is."""
        better = bound is not None and bound.seconds > self.bound.seconds
        if bound is not None and better:
            self.bound = bound
        return better

    def settle(self, seconds: float) -> None:
        """Keeps a period below which nothing fits as the problem counts memory, if the largest."""
        self.settled_s = max(self.settled_s, seconds)

    def closed(self, tolerance: float) -> bool:
        """True if nothing that matters is left to find."""
        share, gap = max(tolerance, self.budget.gap), self.budget.gap
        least_s = max(self.bound.seconds, self.settled_s) * (1.0 + share)
        enough_s = max(least_s, self.budget.enough_s * (1.0 + gap))
        return self.exhausted or self.best_period_s <= enough_s

    def outcome(self, reason: str) -> partition.Outcome:
        """Outcome of the search; `reason` explains an empty one."""
        bound = self.bound if self.bound.seconds > 0.0 else None
        if self.best is None:
            return partition.Outcome(
                None, self.evaluations, reason, bound, infeasible=self.exhausted
            )
        return partition.Outcome(
            self.best,
            self.evaluations,
            bound=bound,
            settled_s=self.settled_s,
            runners_up=tuple(row for _, row in self.kept()[1:]),
        )


class SearchStrategy(ABC):
    """A strategy whose answer is that of one search.

    Attributes:
        remembers: distinct partitions that the search remembers.
    """

    remembers: ClassVar[int] = RUNNERS_UP

    def solve(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        rng: np.random.Generator,
        budget: partition.Budget,
    ) -> partition.Outcome:
        """Searches, see `PartitionStrategy`."""
        search = Search(problem, evaluate, budget, self.remembers)
        return search.outcome(self.run(search, rng))

    @abstractmethod
    def run(self, search: Search, rng: np.random.Generator) -> str:
        """Searches until the budget is spent; why nothing was found, empty where something was."""
