"""Plug-in: the baselines *Random* and *Annealing* of the MCM paper (section 5.1), as strategies.

    mcmc compile m.onnx --plugin tools/reproduce/mcm_study/search_baselines.py --partitioner random

Both are best on no case of the record of partitions, so that the compiler itself is without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler import register
from mcm_compiler.contracts.partition import (
    Budget,
    Evaluate,
    Floats,
    Ints,
    Outcome,
    PartitionProblem,
)
from mcm_compiler.text.option_fields import above, at_least, checked
from mcm_passes.families.ring.solver.batch import ProblemSampler
from mcm_passes.families.ring.solver.sample_and_fix import Singles
from mcm_passes.families.ring.strategies.local_search import NOTHING_DRAWN, ask_authority
from mcm_passes.mapping.search.search import Search

MOST_WEIGHTS = 1 << 25
"""Numbers that all chains of annealing together may hold: 128 MiB."""


class Drawing:
    """One search by partitions that the constraint solver draws (SAMPLE)."""

    def __init__(self, problem: PartitionProblem, evaluate: Evaluate, budget: Budget) -> None:
        self.search = Search(problem, evaluate, budget)
        self.sampler = ProblemSampler.of(problem)

    def draw(
        self, rng: np.random.Generator, count: int, weights: Singles | None = None
    ) -> tuple[Ints, Outcome | None]:
        """Rows of partitions, -1 where nothing was drawn, and the end where no row was."""
        rows = self.sampler.sample(rng, count, weights)
        if (rows[:, 0] >= 0).any():
            return rows, None
        return rows, self.search.outcome(ask_authority(self.search, NOTHING_DRAWN))

    def end(self) -> Outcome:
        """The answer once the budget is spent."""
        return self.search.outcome(f"none of {self.search.evaluations} partitions fits the memory")


@register("strategy")
@dataclass(frozen=True)
@checked(batch=at_least(1))
class RandomSearch:
    """SAMPLE with uniform probabilities.

    Attributes:
        batch: partitions drawn at once.
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
        drawing = Drawing(problem, evaluate, budget)
        while left := drawing.search.left:
            rows, end = drawing.draw(rng, min(self.batch, left))
            if end is not None:
                return end
            drawing.search.periods(rows[rows[:, 0] >= 0])
        return drawing.end()


@register("strategy")
@dataclass(frozen=True)
@checked(chains=at_least(1), cold=above(0))
class Annealing:
    """Annealing on the probabilities that SAMPLE draws from.

    A random subset of the units gets new random probabilities, SAMPLE turns them into a partition,
    and its period decides whether they stay. The paper leaves open how temperatures fall and how
    large subsets are; here the temperature falls geometrically with the budget, and several
    chains run side by side.

    Attributes:
        chains: independent chains; fewer on graphs where their weights would not fit.
        share: expected share of units that get new probabilities in a step, above 0 to 1.
        hot: temperature at the start, as a share of the period, at least `cold`.
        cold: temperature at the end.
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
        if not self.cold <= self.hot:
            raise ValueError(f"cold is {self.cold}, above hot ({self.hot})")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Anneals until the budget is spent."""
        drawing = Drawing(problem, evaluate, budget)
        search, units = drawing.search, drawing.sampler.graph.units
        n, chips = units.size, problem.num_chips
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
            rows, end = drawing.draw(rng, count, proposed)
            if end is not None:
                return end
            drawn = rows[:, 0] >= 0
            found = np.full(count, np.inf)
            periods = search.periods(rows[drawn])
            found[np.flatnonzero(drawn)[: periods.size]] = periods
            done = min(search.evaluations / budget.evaluations, 1.0)
            temperature = self.hot * (self.cold / self.hot) ** done
            keep = np.flatnonzero(_accepted(rng, current[: found.size], found, temperature))
            weights[keep], current[keep] = proposed[keep], found[keep]
        return drawing.end()


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
