"""A partition strategy: the same number of units on every chip, whatever they cost.

It runs as it is with `--plugin even.py --partitioner acme_even`, or installed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler import register
from mcm_compiler.contracts.partition import Budget, Evaluate, Ints, Outcome, PartitionProblem


@register("strategy")
@dataclass(frozen=True)
class Even:
    """Cuts the topological order into runs of equal length; tries every number of chips.

    Attributes:
        max_chips: most chips to use; 0 for all of the package.
    """

    name: ClassVar[str] = "acme_even"
    summary: ClassVar[str] = "equal numbers of ops per chip"

    max_chips: int = 0

    def __post_init__(self) -> None:
        if self.max_chips < 0:
            raise ValueError(f"max_chips is {self.max_chips}, not at least 0")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """The best of the even cuts; O(chips * (units + tensors))."""
        chips = min(self.max_chips or problem.num_chips, problem.num_chips)
        best: Ints | None = None
        best_period_s = math.inf
        tried = 0
        for used in range(1, min(chips, budget.evaluations) + 1):
            candidate = even_cut(problem, used)
            period_s = evaluate(candidate)
            tried += 1
            if period_s < best_period_s:
                best, best_period_s = candidate, period_s
        reason = "" if best is not None else f"none of {tried} even cuts is valid"
        return Outcome(best, tried, reason)


def even_cut(problem: PartitionProblem, chips: int) -> Ints:
    """`chip_of[N]` with the units that are not clonable spread evenly over `chips` chips."""
    movable = ~problem.clonable
    rank = np.cumsum(movable) - 1
    chip_of = (rank.clip(0) * chips // max(int(movable.sum()), 1)).astype(np.int32)
    # A clonable unit is first held by the first chip that reads it. Readers stand later in the
    # order than what they read, so going backwards finds their chips settled.
    producers = problem.tensor_producer
    of_clones = np.flatnonzero((producers >= 0) & problem.clonable[producers])
    settled = np.zeros(problem.num_units, dtype=np.bool_)
    for tensor in sorted(of_clones.tolist(), key=lambda t: -int(producers[t])):
        ends = problem.tensor_ptr[tensor], problem.tensor_ptr[tensor + 1]
        readers = problem.tensor_consumers[ends[0] : ends[1]]
        if readers.size == 0:
            continue
        producer, first = int(producers[tensor]), chip_of[readers].min()
        chip_of[producer] = min(first, chip_of[producer]) if settled[producer] else first
        settled[producer] = True
    return chip_of
