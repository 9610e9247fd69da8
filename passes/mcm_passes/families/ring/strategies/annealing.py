"""Simulated annealing on the probabilities that the constraint solver samples from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Evaluate, Floats, Outcome, PartitionProblem
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.solver.lanes import Singles
from mcm_passes.families.ring.solver.problem_sampling import ProblemSampler
from mcm_passes.families.ring.strategies.random_search import NOTHING_DRAWN
from mcm_passes.families.ring.strategies.start import ask_authority
from mcm_passes.mapping.search.search import Search

MOST_WEIGHTS = 1 << 25
"""Numbers that all chains together may hold: 128 MiB."""


@dataclass(frozen=True)
@checked(chains=at_least(1))
class Annealing:
    """Annealing as in MCM, section 5.1.

    A random subset of the units gets new random probabilities, SAMPLE turns them into a partition,
    and its period decides whether they stay. The paper leaves open how temperatures fall and how
    large subsets are; here the temperature falls geometrically with the budget, and several
    chains run side by side.

    Attributes:
        chains: independent chains, at least 1; fewer on graphs where their weights would not fit.
        share: expected share of units that get new probabilities in a step, above 0 to 1.
        hot: temperature at the start, as a share of the period, above 0.
        cold: temperature at the end, above 0.
    """

    name: ClassVar[str] = "annealing"
    summary: ClassVar[str] = "simulated annealing on probabilities of chips; a baseline"

    chains: int = 8
    share: float = 0.1
    hot: float = 0.1
    cold: float = 0.001

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}, not above 0 and at most 1")
        if not 0 < self.cold <= self.hot:
            raise ValueError(f"cold is {self.cold}, not above 0 and at most hot ({self.hot})")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Anneals until the budget is spent."""
        search = Search(problem, evaluate, budget)
        sampler = ProblemSampler.of(problem)
        units, chips = sampler.graph.units, problem.num_chips
        n = units.size
        chains = max(min(self.chains, MOST_WEIGHTS // (n * chips)), 1)
        # Rows of clonable units are never looked at.
        weights = np.ones((chains, problem.num_units, chips), np.float32)
        weights[:, units] = _new_weights(rng, (chains, n, chips))
        current: Floats = np.full(chains, np.inf)
        while left := search.left:
            count = min(chains, left)
            proposed = weights[:count].copy()
            if search.evaluations:
                chain, node = np.nonzero(rng.random((count, n)) < self.share)
                proposed[chain, units[node]] = _new_weights(rng, (chain.size, chips))
            rows = sampler.sample(rng, count, proposed)
            drawn = rows[:, 0] >= 0
            if not drawn.any():
                why = sampler.note or NOTHING_DRAWN
                return search.outcome(ask_authority(search, sampler, why))
            found = np.full(count, np.inf)
            periods = search.periods(rows[drawn])
            found[np.flatnonzero(drawn)[: periods.size]] = periods
            done = min(search.evaluations / budget.evaluations, 1.0)
            temperature = self.hot * (self.cold / self.hot) ** done
            keep = np.flatnonzero(_accepted(rng, current[: found.size], found, temperature))
            weights[keep], current[keep] = proposed[keep], found[keep]
        return search.outcome(f"none of {search.evaluations} sampled partitions fits the memory")


def _new_weights(rng: np.random.Generator, shape: tuple[int, ...]) -> Singles:
    """Exponential variates: uniform on the simplex once normalised, which SAMPLE does."""
    return rng.standard_exponential(shape, np.float32)


def _accepted(
    rng: np.random.Generator, current: Floats, found: Floats, temperature: float
) -> np.ndarray:
    """Metropolis on the relative change; what is not valid stays only where nothing is yet."""
    chance = rng.random(current.size)
    started = np.isfinite(current)
    worse = np.where(np.isfinite(found), found, np.inf) / np.where(started, current, 1.0) - 1.0
    return ~started | (np.log(np.maximum(chance, 1e-300)) < -np.maximum(worse, 0.0) / temperature)
