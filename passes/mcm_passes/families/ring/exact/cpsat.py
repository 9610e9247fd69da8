"""The exact strategy for all graphs: bounds, order ideals, then CP-SAT in the order encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mcm_compiler.contracts.partition import LowerBound, PartitionProblem
from mcm_compiler.text.option_fields import at_least, between, checked
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.families.ring.exact.ideals import search_ideals, start_from_dp
from mcm_passes.families.ring.exact.packing_bound import packing_bound
from mcm_passes.families.ring.order_encoding import chip_windows
from mcm_passes.mapping.machine.evaluation import evaluate as evaluate_partition
from mcm_passes.mapping.problem.resident_sizes import weight_sizes
from mcm_passes.mapping.search.search import Search, SearchStrategy

if TYPE_CHECKING:
    from mcm_passes.families.ring.order_encoding.cpsat_model import SearchResult

PROOF = "cpsat"

WINDOWS_PER_S = 500_000
"""Windows between ideals that are weighed for each second of effort, which takes half of it."""

ROUNDS = 8
"""Runs of CP-SAT, each below the best partition of the one before."""

LITERALS_PER_S = 6000
"""Booleans of windows that a second of effort can make use of."""

LITERALS = 2_700
"""Booleans of windows, times the root of the effort in seconds, up to which a better partition is
looked for. Presolve takes time in proportion to the square of the model: above, CP-SAT spends all
of the effort before it searches (no branch at 5,910 and at 6,600 with 5 s; at 5,000 it gains)."""

UNKNOWN_EFFORT = 4.0
"""Effort of CP-SAT, as a multiple of the budget's, where no partition is known: the first one is
worth more than a better one."""

NEED_SHARE = 0.1
"""Of the effort, what goes first into what every memory plan needs, where memory is tight: it gives
the bound, and seldom the partition. Where estimates leave nothing, all of it goes there later."""

UNSURE = ("feasible", "unknown")
"""Verdicts of a run of CP-SAT that was cut short."""

TIGHT = 0.75
"""Share of a chip's SRAM from which on CP-SAT is asked for memory at once."""


@dataclass(frozen=True)
@checked(
    tolerance=between(0, 1),
    ideals=at_least(0),
    workers=at_least(1),
    max_units=at_least(1),
    literals=at_least(0),
)
class CpSat(SearchStrategy):
    """Direct optimisation of the period, as far as deterministic effort goes (our derivation).

    Starts from `dp`, tries the order ideals where there are few, raises the bound by windows, and
    leaves the rest to CP-SAT. Its Booleans are "unit v is on chip c or later" inside the windows;
    all resources of the analytic model and the whole triangle rule are constraints.

    Attributes:
        tolerance: gap that is good enough.
        ideals: most order ideals to try before CP-SAT; 0 to go to CP-SAT at once.
        workers: search strategies that take turns in CP-SAT; the result does not depend on cores.
        max_units: most units that a model for CP-SAT is built for.
        literals: most Booleans of windows with which CP-SAT looks for a better partition; 0 to ask
            it for a first one alone.
    """

    name: ClassVar[str] = "cpsat"
    summary: ClassVar[str] = "proven optimum by order ideals and CP-SAT, within a budget"
    remembers: ClassVar[int] = 1

    tolerance: float = 5e-4
    ideals: int = 250_000
    workers: int = 1
    max_units: int = 10_000
    literals: int = 100_000

    def run(self, search: Search, rng: np.random.Generator) -> str:
        """Searches until the gap is within the tolerance or the budget is spent."""
        reason = start_from_dp(search, rng)
        if self.ideals and not search.closed(self.tolerance):
            windows = int(WINDOWS_PER_S * search.budget.effort_s)
            reason = search_ideals(search, self.ideals, windows) or reason
        if not (search.closed(self.tolerance) or search.must_stop()):
            reason = self._optimise(search, rng) or reason
        return reason

    def _optimise(self, known: Search, rng: np.random.Generator) -> str:
        """Windows and CP-SAT; the reason where there is no partition."""
        units = int((~known.problem.clonable).sum())
        if units > self.max_units:
            size = count_text(units, "unit")
            return f"none is known, and {size} are too many to prove that none exists"
        rounds = _Rounds(self, known, rng)
        rounds.raise_bound()
        for _ in range(ROUNDS):
            if known.closed(self.tolerance) or known.must_stop() or not rounds.run():
                break
        if rounds.reason or known.best is not None:
            return rounds.reason
        effort = f"{rounds.allowed_s:g} deterministic seconds of CP-SAT"
        return f"none is known, and {effort} could not prove that none exists"


class _Rounds:
    """Runs of CP-SAT on one problem, each below the best partition of the one before.

    What is proven is to hold for what every memory plan needs, so that the problem is searched at
    need first. Whether a plan is tight to the last byte is for the planner to say; where need
    alone leaves that open, partitions are looked for that keep the free memory that was wanted.

    Attributes:
        allowed_s: deterministic seconds for all rounds together.
        reason: that no partition exists, once that is proven.
    """

    def __init__(self, options: CpSat, known: Search, rng: np.random.Generator) -> None:
        self.allowed_s = known.budget.effort_s * (UNKNOWN_EFFORT if known.best is None else 1.0)
        self.reason = ""
        self._options = options
        self._known = known
        self._rng = rng
        self._wanted = problem = known.problem
        self._most_s = slowest_s(problem)
        self._problem = problem.at_need().reached()
        # Whether models ask for memory at all; without, they are much smaller.
        self._memory = _memory_is_tight(known)
        self._shared = self._memory and problem.memory == "estimate"
        self._effort_s = self.allowed_s * (NEED_SHARE if self._shared else 1.0)
        self._roomy = False

    def raise_bound(self) -> None:
        """Proves what needs no solver: windows, and units and weights that pack."""
        known, problem = self._known, self._problem
        most_s = min(known.best_period_s, self._most_s)
        known.prove(chip_windows.windows_bound(problem, known.bound.seconds, most_s))
        if not known.closed(self._options.tolerance):
            known.prove(packing_bound(problem, known.bound.seconds, most_s))

    def run(self) -> bool:
        """Run one round; True if another one may show more."""
        known = self._known
        ceiling_s = min(known.best_period_s * (1.0 - 0.5 * self._options.tolerance), self._most_s)
        windows = chip_windows.chip_windows(self._problem, ceiling_s)
        if windows.empty and known.best is None and not self._roomy:
            self._exhaust("none exists: however long the period, some unit has no chip left")
            return False
        effort_s = max(self._effort_s, 0.0)
        most = LITERALS_PER_S * effort_s
        if known.best is not None:
            most = min(most, LITERALS * effort_s**0.5, self._options.literals)
        if windows.total_width > most or most <= 0.0:
            # Too large a model for what is left.
            return self._shared and not self._roomy and self._keep_room()
        result = self._search(windows, ceiling_s)
        bound = _bound(result, ceiling_s)
        return self._settle(result, bound) if self._roomy else self._learn(result, bound)

    def _keep_room(self) -> bool:
        """Search for partitions that leave a memory plan free memory from here on; True."""
        self._roomy = True
        self._problem = self._wanted.reached()
        if self._shared:
            self._effort_s = self.allowed_s
        return True

    def _search(self, windows: chip_windows.ChipWindows, ceiling_s: float) -> SearchResult:
        """CP-SAT below a ceiling, from the best partition on."""
        from mcm_passes.families.ring.order_encoding.cpsat_model import CpSatModel

        known = self._known
        least_s = known.bound.seconds
        model = CpSatModel(self._problem, windows, least_s, ceiling_s, memory=self._memory)
        result = model.search(
            known,
            self._effort_s,
            workers=self._options.workers,
            seed=int(self._rng.integers(1 << 31)),
            gap=0.25 * self._options.tolerance,
        )
        self._effort_s -= result.effort_s
        return result

    def _settle(self, result: SearchResult, bound: LowerBound) -> bool:
        """Take note of a round with free memory, which proves nothing of tighter partitions."""
        self._known.settle(bound.seconds)
        found = result.chip_of is not None and self._known.admit(result.chip_of)
        return found and result.verdict not in UNSURE

    def _learn(self, result: SearchResult, bound: LowerBound) -> bool:
        """Take note of a round at need, which holds for every plan; True if another may help."""
        known = self._known
        if result.verdict == "infeasible" and known.best is None:
            self._exhaust(
                "none exists, as CP-SAT proved over all placements that memory and rules allow"
            )
            return False
        known.prove(bound)
        broken = result.chip_of is not None and not known.admit(result.chip_of)
        unsure = result.verdict in UNSURE
        if (broken or unsure) and self._memory and self._wanted.memory == "estimate":
            return self._keep_room()
        if unsure or (broken and self._memory):
            return False
        # What it found without asking for memory may not fit.
        self._memory |= broken
        return True

    def _exhaust(self, reason: str) -> None:
        self._known.exhausted = True
        self.reason = reason


def _memory_is_tight(known: Search) -> bool:
    problem = known.problem
    if known.best is None or problem.streams:
        return True
    used = evaluate_partition(problem, known.best).memory_bytes
    return bool((used > TIGHT * np.array(problem.limits.sram_bytes)).any())


def _bound(result: SearchResult, ceiling_s: float) -> LowerBound:
    seconds = min(result.bound_s, ceiling_s)
    if result.verdict == "infeasible":
        text = f"CP-SAT proved that no partition is within {seconds_text(seconds)}"
    else:
        text = f"dual bound of CP-SAT, {seconds_text(seconds)}"
    return LowerBound(seconds, text, PROOF)


def slowest_s(problem: PartitionProblem) -> float:
    """More than the period of any partition: all work and all transfers one after the other.

    What a channel carries that all chips share may go to each of them.
    """
    limits = problem.limits
    work = float(problem.compute_s.sum() + problem.relay_s.sum())
    moved = float(problem.tensor_bytes.sum())
    seconds = work / float(problem.chip_speed.min())
    seconds += moved / limits.link_bytes_per_s + moved / limits.host_bytes_per_s
    seconds += moved * problem.num_chips / limits.host_root_bytes_per_s
    if problem.streams:
        sizes = weight_sizes(problem)
        weights = float(sizes.sum()) + sizes.size * limits.buffer_alignment_bytes
        seconds += weights / limits.stream_bytes_per_s
        seconds += weights * problem.num_chips / limits.stream_root_bytes_per_s
    return 2.0 * seconds + 1e-9
