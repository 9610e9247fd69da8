"""The best partition and bound of a search; without a solver, so that none is loaded for it."""

from __future__ import annotations

import time

from mcm_compiler.contracts import partition

NO_BOUND = partition.LowerBound(0.0, "nothing proven")


class Incumbent:
    """State of a search.

    Attributes:
        chip_of: `[N]`, the best partition so far, or None.
        period_s: its period, or infinity.
        bound: the best bound so far.
        settled_s: as in `Outcome`, the largest so far.
        evaluations: partitions that were evaluated.
        exhausted: whether it is proven that no partition exists.
    """

    def __init__(self, evaluate: partition.Evaluate, budget: partition.Budget) -> None:
        self.chip_of: partition.Ints | None = None
        self.period_s = float("inf")
        self.bound = NO_BOUND
        self.settled_s = 0.0
        self.evaluations = 0
        self.exhausted = False
        self._evaluate = evaluate
        self._budget = budget
        self._start_s = time.monotonic()

    def offer(self, chip_of: partition.Ints) -> bool:
        """Evaluates a partition and keeps it if it is the best; whether it is valid."""
        self.evaluations += 1
        period_s = self._evaluate(chip_of)
        if period_s < self.period_s:
            self.chip_of, self.period_s = chip_of, period_s
            self._budget.monitor.best(chip_of, period_s)
        return period_s < float("inf")

    def prefer(self, chip_of: partition.Ints) -> None:
        """Keeps a partition that is as good as the best, up to rounding, and better otherwise."""
        self.evaluations += 1
        value = self._evaluate(chip_of)
        if value <= self.period_s * (1.0 + 1e-12):
            self.chip_of, self.period_s = chip_of, value

    def prove(self, bound: partition.LowerBound) -> None:
        """Keeps a bound if it is the best."""
        if bound.seconds > self.bound.seconds:
            self.bound = bound

    def settle(self, seconds: float) -> None:
        """Keeps a period below which nothing fits as the problem counts memory, if the largest."""
        self.settled_s = max(self.settled_s, seconds)

    def closed(self, tolerance: float) -> bool:
        """True if nothing that matters is left to find."""
        least_s = max(self.bound.seconds, self.settled_s)
        share = max(tolerance, self._budget.gap)
        enough_s = max(least_s * (1.0 + share), self._budget.enough_s * (1.0 + self._budget.gap))
        return self.exhausted or self.period_s <= enough_s

    def seconds_left(self) -> float | None:
        """Wall time left, or None where it is not limited."""
        if self._budget.seconds is None:
            return None
        return max(self._budget.seconds - (time.monotonic() - self._start_s), 0.0)

    def must_stop(self) -> bool:
        """True if the budget is spent or the caller has cancelled."""
        return (
            self._budget.monitor.cancelled
            or self.evaluations >= self._budget.evaluations
            or self.seconds_left() == 0.0
        )

    def outcome(self, reason: str) -> partition.Outcome:
        """The answer; `reason` says why there is no partition where there is none."""
        bound = self.bound if self.bound.seconds > 0.0 else None
        if self.chip_of is None:
            return partition.Outcome(
                None, self.evaluations, reason, bound, infeasible=self.exhausted
            )
        return partition.Outcome(
            self.chip_of, self.evaluations, bound=bound, settled_s=self.settled_s
        )
