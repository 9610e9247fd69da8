"""The best contiguous partition of several topological orders, by bisection on the period."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.partition import Budget, Evaluate, Ints, Outcome, PartitionProblem
from mcm_passes.partitioning.contiguous_kernels import chain_windows
from mcm_passes.partitioning.contiguous_windows import Windows, windows_along
from mcm_passes.partitioning.greedy import chips_from_cuts
from mcm_passes.partitioning.infeasibility import tightest_unit
from mcm_passes.partitioning.topological_orders import Order, topological_orders

SLACK = 1e-9
"""Relative room for the rounding of running sums."""

STREAM_SHARES = (0.0, 0.25, 1.0, 4.0)
"""Bounds that are tried for what a chip may lack where weights can be streamed."""


@dataclass(frozen=True)
class ContiguousDp:
    """Bisection on the period; at each period, dynamic programming over cuts (our derivation).

    A period is feasible if the order can be chained from windows that fit into it. Clones,
    relays, links, host channels and memory are inside, so that what is found is valid. Exact up
    to `tolerance` for chains; for other graphs the best of its orders.

    Attributes:
        orders: topological orders to cut, at least 1; see `topological_orders`.
        tolerance: relative width at which the bisection stops.
    """

    name: ClassVar[str] = "dp"
    summary: ClassVar[str] = "best contiguous cuts of several topological orders, by bisection"

    orders: int = 5
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if self.orders < 1:
            raise ValueError(f"orders is {self.orders}, not at least 1")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance is {self.tolerance}, not between 0 and 1")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Cuts each order; nothing is random."""
        del rng
        search = _Search(problem, evaluate, budget, self.tolerance)
        orders = topological_orders(problem, self.orders)
        shares = STREAM_SHARES if problem.streams else (0.0,)
        for order in orders:
            for share in shares:
                search.cut(order, windows_along(problem, order.units, stream_share=share))
        if search.best is None:
            # Activations are estimated from above along an order; the evaluation counts exactly.
            for order in orders:
                search.cut(order, windows_along(problem, order.units, count_live=False))
        if search.best is not None:
            return Outcome(search.best, search.evaluations)
        rule = " under the strict rule" if problem.routing == "strict" else ""
        pins = " and the pinned chips" if (problem.pinned_chip >= 0).any() else ""
        return Outcome(
            None,
            search.evaluations,
            f"no contiguous cuts of {len(orders)} topological orders fit the memory{pins}{rule}; "
            + tightest_unit(problem, orders),
        )


class _Search:
    """The best partition so far, over all orders."""

    def __init__(
        self, problem: PartitionProblem, evaluate: Evaluate, budget: Budget, tolerance: float
    ) -> None:
        self._problem = problem
        self._evaluate = evaluate
        self._budget = budget
        self._start_s = time.monotonic()
        self._tolerance = tolerance
        work = float(problem.compute_s.sum())
        heaviest = float(problem.compute_s.max(initial=0.0))
        speed = problem.chip_speed
        self._least = max(work / float(speed.sum()), heaviest / float(speed.max()))
        self.best: Ints | None = None
        self.best_period = float("inf")
        self.evaluations = 0

    def cut(self, order: Order, windows: Windows) -> None:
        """Bisects on the period along one order, below the best one known."""
        ceiling = self.best_period * (1.0 - self._tolerance)
        high = self._try(order, windows, ceiling)
        low = min(self._least, high) * (1.0 - SLACK)
        while np.isfinite(high) and high - low > self._tolerance * high:
            # Most optima lie near the lower end, so guesses lean towards it.
            middle = low + 0.25 * (high - low)
            found = self._try(order, windows, middle)
            if np.isfinite(found):
                high = min(found, middle)
            else:
                low = middle

    def _try(self, order: Order, windows: Windows, period_s: float) -> float:
        """The period of a partition within `period_s`, or infinity where there is none."""
        if self._spent():
            return float("inf")
        cuts = chain_windows(windows, period_s * (1.0 + SLACK))
        if not cuts.size:
            return float("inf")
        chip_of = chips_from_cuts(self._problem, order.units, cuts)
        self.evaluations += 1
        found = self._evaluate(chip_of)
        fewer = (
            self.best is not None
            and found <= self.best_period
            and len(cuts) - 2 < int(self.best.max())
        )
        if found < self.best_period or fewer:
            self.best, self.best_period = chip_of, found
            self._budget.monitor.best(chip_of, found)
        return found

    def _spent(self) -> bool:
        """Whether the budget is spent; time counts from the first evaluation on."""
        budget = self._budget
        late = budget.seconds is not None and time.monotonic() - self._start_s >= budget.seconds
        stopped = late or budget.monitor.cancelled
        return self.evaluations >= budget.evaluations or (self.evaluations > 0 and stopped)
