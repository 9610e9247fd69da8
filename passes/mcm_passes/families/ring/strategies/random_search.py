"""Random search: partitions drawn by the constraint solver, the best of which is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Evaluate, Outcome, PartitionProblem
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.solver.problem_sampling import ProblemSampler
from mcm_passes.families.ring.strategies.start import ask_authority
from mcm_passes.mapping.search.search import Search

NOTHING_DRAWN = "no partition keeps the pins and the rules"


@dataclass(frozen=True)
@checked(batch=at_least(1))
class RandomSearch:
    """SAMPLE with uniform probabilities (MCM, section 5.1: the baseline *Random*).

    Attributes:
        batch: partitions drawn at once, at least 1.
    """

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "valid partitions drawn at random; a baseline"

    batch: int = 256

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Draws and evaluates until the budget is spent."""
        search = Search(problem, evaluate, budget)
        sampler = ProblemSampler.of(problem)
        while left := search.left:
            rows = sampler.sample(rng, min(self.batch, left))
            rows = rows[rows[:, 0] >= 0]
            if not len(rows):
                why = sampler.note or NOTHING_DRAWN
                return search.outcome(ask_authority(search, sampler, why))
            search.periods(rows)
        return search.outcome(f"none of {search.evaluations} random partitions fits the memory")
