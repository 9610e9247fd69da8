"""The exact strategy for graphs that are nearly a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.partition import (
    Budget,
    Evaluate,
    LowerBound,
    Outcome,
    PartitionProblem,
)
from mcm_compiler.units import count_text
from mcm_passes.exact.ideal_dp import SLACK, IdealLattice, IdealOptimum
from mcm_passes.exact.incumbent import Incumbent
from mcm_passes.partitioning.contiguous_dp import dp_outcome

PROOF = "ideals"


@dataclass(frozen=True)
class Ideals:
    """Dynamic programming over order ideals (Tarnawski et al. 2020, section 5.1).

    Exact under the relay rule, memory and all. Under the strict rule it finds the best partition
    whose dependencies span at most one chip, and proves a bound for all others; mostly the two
    meet. Starts from `dp`, whose partition limits the windows.

    Attributes:
        ideals: most order ideals; where a graph has more, the answer is that of `dp`.
        windows: most windows between two of them.
    """

    name: ClassVar[str] = "ideals"
    summary: ClassVar[str] = "exact dynamic programming over order ideals; for chain-like graphs"

    ideals: int = 20_000
    windows: int = 4_000_000

    def __post_init__(self) -> None:
        for name, value in (("ideals", self.ideals), ("windows", self.windows)):
            if value < 1:
                raise ValueError(f"{name} is {value}, not at least 1")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Nothing is random."""
        known = Incumbent(evaluate, budget)
        reason = start_from_dp(known, problem, evaluate, rng, budget)
        text = search_ideals(known, problem, self.ideals, self.windows)
        return known.outcome(text or reason)


def start_from_dp(
    known: Incumbent,
    problem: PartitionProblem,
    evaluate: Evaluate,
    rng: np.random.Generator,
    budget: Budget,
) -> str:
    """Offers what `dp` finds; the reason where it finds nothing."""
    outcome = dp_outcome(problem, evaluate, rng, budget)
    known.evaluations += outcome.evaluations
    if outcome.chip_of is not None:
        known.offer(outcome.chip_of)
    return outcome.reason


def search_ideals(
    known: Incumbent, problem: PartitionProblem, most_ideals: int, most_windows: int
) -> str:
    """Improves a partition and a bound by dynamic programming over ideals.

    Returns:
        Why there is no partition, or that this stays unproven; empty where the search says
        nothing of that.
    """
    lattice = IdealLattice.of(problem, most_ideals)
    if lattice is None or known.must_stop():
        return ""
    strict = problem.routing == "strict"
    if strict:
        found = lattice.optimum("adjacent", _ceiling(known), most_windows)
        if found is not None and found.chip_of is not None:
            known.offer(found.chip_of)
    found = lattice.optimum("between" if strict else "none", _ceiling(known), most_windows)
    if found is None:
        return ""
    if found.chip_of is None and np.isinf(found.period_s):
        known.exhausted = True
        return (
            f"none exists: each of the {count_text(found.windows, 'window')} between "
            f"{count_text(found.ideals, 'order ideal')} of the graph was tried, and no chain of "
            "them fits memory and rules"
        )
    if found.chip_of is not None:
        known.offer(found.chip_of)
    seconds = min(found.period_s, known.period_s)
    known.prove(LowerBound(seconds, _argument(found, strict), PROOF))
    if known.chip_of is None:
        return "none is known, and it is unproven that none exists"
    return ""


def _ceiling(known: Incumbent) -> float:
    return known.period_s * (1.0 + 10.0 * SLACK)


def _argument(found: IdealOptimum, strict: bool) -> str:
    text = f"best of all chains of {count_text(found.ideals, 'order ideal')}"
    return text + (", with detours beside dependencies left out" if strict else "")
