"""The exact strategy for graphs that are nearly a chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np

from mcm_compiler.contracts.partition import LowerBound
from mcm_compiler.text.option_fields import at_least, checked
from mcm_compiler.text.units import count_text
from mcm_passes.families.ring.contiguous.contiguous_dp import dp_outcome
from mcm_passes.families.ring.exact.ideal_chain import SLACK, TriangleReading
from mcm_passes.families.ring.exact.ideal_dp import ChainOptimum, IdealLattice
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.search.search import Search, SearchStrategy

PROOF = "ideals"

Lattice = TypeVar("Lattice", bound=IdealLattice)

FIRST_STEP = 0.01
"""Of the periods that are tried, by how much the first is above the bound."""

GROWTH = 3.0
"""By how much each is further above it than the one before."""

LAST_STEP = 100.0
"""Beyond that many times the bound no period is tried but that of the partition that is known."""


@dataclass(frozen=True)
@checked(ideals=at_least(1), windows=at_least(1))
class Ideals(SearchStrategy):
    """Dynamic programming over order ideals (Tarnawski et al. 2020, section 5.1).

    Exact under the relay rule, memory and all. Under the strict rule it finds the best partition
    whose dependencies span at most one chip, and proves a bound for all others; mostly the two
    meet. Likewise, what several chips read or stream through one channel that they share counts
    once in the bound, as no window knows of the others. Starts from `dp`.

    Attributes:
        ideals: most order ideals; where a graph has more, the answer is that of `dp`.
        windows: most windows between two of them; one takes about a microsecond.
    """

    name: ClassVar[str] = "ideals"
    summary: ClassVar[str] = "exact dynamic programming over order ideals; for chain-like graphs"
    remembers: ClassVar[int] = 1

    ideals: int = 20_000
    windows: int = 4_000_000

    def run(self, search: Search, rng: np.random.Generator) -> str:
        """Nothing is random."""
        reason = start_from_dp(search, rng)
        return search_ideals(search, self.ideals, self.windows) or reason


def start_from_dp(known: Search, rng: np.random.Generator) -> str:
    """Offers what `dp` finds, and the bound of all problems; the reason where it finds nothing."""
    outcome = dp_outcome(known.problem, known.evaluate, rng, known.budget)
    known.spend(outcome.evaluations)
    if outcome.chip_of is not None:
        known.admit(outcome.chip_of)
    known.prove(lower_bound(known.problem))
    return outcome.reason


def search_ideals(known: Search, most_ideals: int, most_windows: int) -> str:
    """Improves a partition and a bound by dynamic programming over ideals.

    Unless all windows can be looked at, periods are tried from the bound upwards: the closer to it,
    the fewer ideals can be where one chip hands over to the next. Each that no partition is below
    is a bound, and the first that one is below has the optimum.

    Args:
        known: what there is, and what comes. Bounds hold for what every memory plan needs at
            least, and partitions are kept where they fit as its problem counts memory.
        most_ideals: where a graph has more, nothing is tried.
        most_windows: most windows between two of them, over all periods.

    Returns:
        Why there is no partition, or that this stays unproven; empty where the search says
        nothing of that.
    """
    lattice = IdealLattice.of(known.problem.at_need(), most_ideals)
    if lattice is None or known.must_stop():
        return ""
    best = partial(_climb, known, most_windows=most_windows)
    strict = known.problem.routing == "strict"
    found, roomy = offer_chains(known, lattice, best, "between")
    if roomy is not None and not strict:
        known.settle(min(roomy.value, known.best_period_s))
    if found is None:
        return ""
    if found.chip_of is None and np.isinf(found.value):
        known.exhausted = True
        return (
            f"none exists: each of the {count_text(found.windows, 'window')} between "
            f"{count_text(lattice.count, 'order ideal')} of the graph was tried, and no chain of "
            "them fits memory and rules"
        )
    optimal = found.value * (1.0 + SLACK) >= known.best_period_s
    chains = f"chains of {count_text(lattice.count, 'order ideal')}"
    argument = f"best of all {chains}" if optimal else f"slower are all {chains}"
    if strict:
        argument += ", without detours around dependencies"
    known.prove(LowerBound(min(found.value, known.best_period_s), argument, PROOF))
    if known.best is None:
        return "none is known, and it is unproven that none exists"
    return ""


def offer_chains(
    known: Search,
    lattice: Lattice,
    best: Callable[[Lattice, TriangleReading], ChainOptimum | None],
    loosest: TriangleReading = "none",
) -> tuple[ChainOptimum | None, ChainOptimum | None]:
    """Offers the best chains of ideals, by each reading of the rules that may have a valid one.

    Args:
        known: receives them, and keeps what fits as its problem counts memory.
        lattice: of what every memory plan needs at least.
        best: the best chain of a lattice by a reading, if it finds one.
        loosest: the reading for bounds under the strict rule.

    Returns:
        The result of the loosest reading, and that with the memory that `problem` counts, which is
        only sought where the other does not fit.
    """
    problem = known.problem
    strict = problem.routing == "strict"

    def offered(of: Lattice, reading: TriangleReading) -> tuple[ChainOptimum | None, bool]:
        found = best(of, reading)
        return found, found is None or found.chip_of is None or known.admit(found.chip_of)

    fits = not strict or offered(lattice, "adjacent")[1]
    found, valid = offered(lattice, loosest if strict else "none")
    if (fits and (valid or strict)) or problem.memory != "estimate":
        return found, None
    # Whether a plan is tight to the last byte is for the planner to say; one with some room is
    # sought as well.
    return found, offered(lattice.of_problem(problem), "adjacent" if strict else "none")[0]


def _climb(
    known: Search, lattice: IdealLattice, reading: TriangleReading, most_windows: int
) -> ChainOptimum | None:
    """The optimum under a reading of the rules, or the largest period that none is below.

    Returns:
        None where not even the first period could be tried.
    """
    reached: ChainOptimum | None = None
    few = lattice.count * (lattice.count - 1) // 2 <= most_windows
    start_s = np.inf if few else known.bound.seconds
    for period_s in rising_periods(start_s, known.best_period_s):
        found = lattice.optimum(reading, period_s * (1.0 + 10.0 * SLACK), most_windows)
        if not found.complete:
            break
        most_windows -= found.windows
        if found.chip_of is not None:
            return found
        reached = replace(found, value=period_s)
        if known.must_stop():
            break
    return reached


def rising_periods(bound_s: float, known_s: float) -> Iterator[float]:
    """From just above a bound, where that is finite, to a period that is known or infinite."""
    above = FIRST_STEP
    while 0.0 < bound_s < np.inf and bound_s * (1.0 + above) < known_s and above < LAST_STEP:
        yield bound_s * (1.0 + above)
        above *= GROWTH
    yield known_s
