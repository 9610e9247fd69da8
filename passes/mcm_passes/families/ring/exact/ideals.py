"""The exact strategy for graphs that are nearly a chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import ClassVar, Self, TypeVar

import numpy as np

from mcm_compiler.contracts.partition import Ints, Longs, LowerBound, PartitionProblem
from mcm_compiler.text.option_fields import at_least, checked
from mcm_compiler.text.units import count_text
from mcm_passes.families.ring.contiguous.contiguous_dp import dp_outcome
from mcm_passes.families.ring.exact.ideal_chain import (
    SLACK,
    ChipLimits,
    Covers,
    TriangleReading,
    Triangles,
    best_chain,
)
from mcm_passes.families.ring.loads.window_costs import PackingRatio, cuts_of
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.loads.chip_demands import chip_demands
from mcm_passes.mapping.problem.order_ideals import OrderIdeals, order_ideals
from mcm_passes.mapping.problem.resident_sizes import sram_blocks
from mcm_passes.mapping.problem.rule_graph import closure, nodes_of, rule_graph
from mcm_passes.mapping.search.search import Search, SearchStrategy


@dataclass(frozen=True, eq=False)
class ChainOptimum:
    """The best partition among chains of ideals, under one reading of the rules.

    Attributes:
        chip_of: `[N]`, or None where no chain is within the limits of the search.
        value: the figure that it minimises; for None the ceiling on periods, or infinite.
        complete: whether all chains were searched, so that none is better.
        windows: windows that were weighed.
        labels: labels that were made.
    """

    chip_of: Ints | None
    value: float
    complete: bool
    windows: int
    labels: int = 0


class IdealLattice:
    """A problem prepared for dynamic programming over its ideals.

    What a window takes must not depend on other windows: the host reaches every chip, which makes
    no placement slower.
    """

    def __init__(self, problem: PartitionProblem, ideals: OrderIdeals) -> None:
        self._problem = problem = problem.reached()
        self._graph = rule_graph(problem)
        self._ideals = ideals
        self._demands = chip_demands(problem, self._graph.units)
        self._cuts = cuts_of(ideals.members, self._demands.tensors, ideals.smaller)
        self._covers = Covers(ideals.cover_ptr, ideals.covers, ideals.cover_node)
        self._closure = closure(self._graph)
        self._pinned = self._pinned_sets()
        self._chips = self._package()

    @classmethod
    def of(cls, problem: PartitionProblem, most_ideals: int) -> Self | None:
        """None where the graph has more ideals, or no unit to place."""
        graph = rule_graph(problem)
        ideals = order_ideals(graph, most_ideals) if graph.num_nodes else None
        return None if ideals is None else cls(problem, ideals)

    def of_problem(self, problem: PartitionProblem) -> Self:
        """The lattice of a problem with the same units and dependencies, and other memory."""
        return type(self)(problem, self._ideals)

    @property
    def count(self) -> int:
        """Number of ideals."""
        return self._ideals.count

    def optimum(
        self, reading: TriangleReading, ceiling_s: float, most_windows: int
    ) -> ChainOptimum:
        """The smallest period below `ceiling_s`, with the fewest chips among equals.

        Every constraint but the triangle rule is local to one window between two ideals. The
        smallest largest cost over chains of at most C windows is therefore the exact optimum under
        the analytic model and the given interpretation of that rule.

        Args:
            reading: how windows treat long dependencies.
            ceiling_s: partitions from this period on are not looked for; may be infinite.
            most_windows: gives up beyond this many.
        """
        best, came_from, windows = best_chain(
            self._demands,
            self._cuts,
            self._covers,
            self._pinned,
            self._chips,
            self._triangles(reading),
            ceiling_s,
            most_windows,
        )
        last = best[self.count - 1]
        chips = int(last.argmin())
        complete = windows <= most_windows
        if not (complete and last[chips] < ceiling_s):
            return ChainOptimum(None, ceiling_s, complete, windows)
        # The ideal before each, by chips.
        ideals = [self.count - 1]
        for k in range(chips, 0, -1):
            ideals.append(int(came_from[ideals[-1], k]))
        return ChainOptimum(self._partition(ideals[::-1]), float(last[chips]), True, windows)

    def _triangles(self, reading: TriangleReading) -> Triangles:
        return Triangles(reading == "adjacent", reading == "between", *self._closure)

    def _partition(self, ideals: Sequence[int]) -> Ints:
        """The partition whose chips take over and hand over at these ideals, from the first on."""
        chip_of = np.zeros(self._problem.num_units, np.int32)
        members = self._ideals.members
        for chip, (before, at) in enumerate(pairwise(ideals)):
            chip_of[self._graph.units[nodes_of(members[at] & ~members[before])]] = chip
        return chip_of

    def _pinned_sets(self) -> Longs:
        """`[I, C + 1]`, how many nodes of each ideal are pinned to each chip, and to any."""
        pinned = self._demands.nodes.pinned
        chips = self._problem.num_chips
        held = np.zeros((self.count, chips + 1), np.int64)
        for v in np.flatnonzero(pinned >= 0).tolist():
            inside = (self._ideals.members[:, v >> 6] >> np.uint64(v & 63) & np.uint64(1)) > 0
            held[inside, chips] += 1
            if pinned[v] < chips:
                held[inside, pinned[v]] += 1
        return held

    def _package(self) -> ChipLimits:
        limits = self._problem.limits
        speed, sram_room = self._problem.chip_speed, sram_blocks(self._problem)
        pinned = bool((self._demands.nodes.pinned >= 0).any())
        return ChipLimits(
            speed,
            sram_room,
            np.inf if self._problem.streams else float(sram_room.max()),
            limits.link_bytes_per_s,
            limits.host_bytes_per_s,
            limits.stream_bytes_per_s,
            PackingRatio(*limits.activation_packing.as_integer_ratio()),
            limits.buffer_alignment_bytes,
            limits.stream_buffers,
            not pinned and np.unique(speed).size == np.unique(sram_room).size == 1,
        )


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
