"""The exact strategy for all graphs: bounds, order ideals, then CP-SAT in the order encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mcm_compiler.partition import Budget, Evaluate, LowerBound, Outcome, PartitionProblem
from mcm_compiler.units import count_text, seconds_text
from mcm_passes.families.ring.exact.chip_demands import chip_demands
from mcm_passes.families.ring.exact.chip_windows import chip_windows
from mcm_passes.families.ring.exact.flow_bound import flow_bound
from mcm_passes.families.ring.exact.ideals import search_ideals, start_from_dp
from mcm_passes.families.ring.exact.incumbent import Incumbent
from mcm_passes.families.ring.exact.packing_bound import packing_bound
from mcm_passes.families.ring.fast_model import evaluate as evaluate_partition
from mcm_passes.partitioning.bounds import lower_bound
from mcm_passes.partitioning.rooms import weight_rooms
from mcm_passes.partitioning.rule_graph import rule_graph
from mcm_passes.partitioning.work_around import work_around

if TYPE_CHECKING:
    from mcm_passes.families.ring.exact.cpsat_model import SearchResult

PROOF = "cpsat"

WINDOWS_PER_S = 500_000
"""Windows between ideals that are weighed for each second of effort, which takes half of it."""

ROUNDS = 8
"""Runs of CP-SAT, each below the best partition of the one before."""

LITERALS_PER_S = 6000
"""Booleans that a second of effort can make use of; larger models are not worth building."""

UNKNOWN_EFFORT = 4.0
"""Effort of CP-SAT, as a multiple of the budget's, where no partition is known: the first one is
worth more than a better one."""

NEED_SHARE = 0.1
"""Of the effort, what goes first into what every memory plan needs, where memory is tight: it gives
the bound, and seldom the partition. Where estimates leave nothing, all of it goes there later."""

TIGHT = 0.75
"""Share of a chip's SRAM from which on CP-SAT is asked for memory at once."""


@dataclass(frozen=True)
class CpSat:
    """Direct optimisation of the period, as far as deterministic effort goes (our derivation).

    Starts from `dp`, raises the bound by windows and minimum cuts, tries the order ideals where
    there are few, and leaves the rest to CP-SAT: Booleans "unit v is on chip c or later" inside
    the windows, all resources of the fast model as linear constraints, the whole triangle rule.

    Attributes:
        tolerance: gap that is good enough.
        ideals: most order ideals to try before CP-SAT; 0 to go to CP-SAT at once.
        workers: search strategies that take turns in CP-SAT; the result does not depend on cores.
        max_units: most units that a model for CP-SAT is built for.
    """

    name: ClassVar[str] = "cpsat"
    summary: ClassVar[str] = "proven optimum by order ideals and CP-SAT, within a budget"

    tolerance: float = 5e-4
    ideals: int = 250_000
    workers: int = 1
    max_units: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance is {self.tolerance}, not between 0 and 1")
        for name, value, least in (
            ("ideals", self.ideals, 0),
            ("workers", self.workers, 1),
            ("max_units", self.max_units, 1),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}, not at least {least}")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Searches until the gap is within the tolerance or the budget is spent."""
        known = Incumbent(evaluate, budget)
        reason = start_from_dp(known, problem, evaluate, rng, budget)
        known.prove(lower_bound(problem))
        if self.ideals and not known.closed(self.tolerance):
            windows = int(WINDOWS_PER_S * budget.effort_s)
            reason = search_ideals(known, problem, self.ideals, windows) or reason
        if not (known.closed(self.tolerance) or known.must_stop()):
            reason = self._optimise(known, problem, rng, budget) or reason
        return known.outcome(reason)

    def _optimise(
        self,
        known: Incumbent,
        problem: PartitionProblem,
        rng: np.random.Generator,
        budget: Budget,
    ) -> str:
        """Flow bound and CP-SAT; the reason where there is no partition."""
        graph = rule_graph(problem)
        if graph.num_nodes > self.max_units:
            size = count_text(graph.num_nodes, "unit")
            return f"none is known, and {size} are too many to prove that none exists"
        from mcm_passes.families.ring.exact.cpsat_model import CpSatModel, SearchLimits

        most_s = _slowest(problem)
        # What is proven holds for what every memory plan needs; partitions are to fit `wanted`.
        wanted, problem = problem, problem.at_need()
        around = work_around(problem, graph)
        demands = chip_demands(problem, graph)
        known.prove(
            flow_bound(
                problem, graph, around, demands, known.bound.seconds, min(known.period_s, most_s)
            )
        )
        if not known.closed(self.tolerance):
            known.prove(
                packing_bound(problem, graph, known.bound.seconds, min(known.period_s, most_s))
            )
        allowed_s = budget.effort_s * (UNKNOWN_EFFORT if known.chip_of is None else 1.0)
        effort_s = allowed_s
        memory = _memory_is_tight(known, wanted)
        room_is_next = roomy = False
        shared = memory and wanted.memory == "estimate"
        if shared:
            effort_s *= NEED_SHARE
        for _ in range(ROUNDS):
            if known.closed(self.tolerance) or known.must_stop():
                break
            if room_is_next and not roomy:
                # Whether a plan is tight to the last byte is for the planner to say; from here on
                # partitions are looked for that leave it some room.
                roomy, problem, demands = True, wanted, chip_demands(wanted, graph)
                around = work_around(problem, graph)
                effort_s = allowed_s if shared else effort_s
            ceiling_s = min(known.period_s * (1.0 - 0.5 * self.tolerance), most_s)
            windows = chip_windows(problem, graph, around, ceiling_s)
            if windows.empty and known.chip_of is None and not roomy:
                known.exhausted = True
                return "none exists: however long the period, some unit has no chip left"
            if windows.total_width > LITERALS_PER_S * effort_s:
                # Too large a model for what is left.
                if not shared or roomy:
                    break
                room_is_next = True
                continue
            model = CpSatModel(
                problem, graph, demands, windows, known.bound.seconds, ceiling_s, memory=memory
            )
            if known.chip_of is not None:
                model.hint(known.chip_of)
            result = model.search(
                SearchLimits(
                    effort_s=effort_s,
                    seconds=known.seconds_left(),
                    workers=self.workers,
                    seed=int(rng.integers(1 << 31)),
                    gap=0.25 * self.tolerance,
                ),
                known.offer,
                known.must_stop,
            )
            effort_s -= result.effort_s
            if roomy:
                # Nothing is proven of what does without the room.
                known.settle(_bound(result, ceiling_s).seconds)
                found = result.chip_of is not None and known.offer(result.chip_of)
                if not found or result.verdict in ("feasible", "unknown"):
                    break
                continue
            if result.verdict == "infeasible" and known.chip_of is None:
                known.exhausted = True
                return (
                    "none exists, as CP-SAT proved over all placements that memory and rules allow"
                )
            known.prove(_bound(result, ceiling_s))
            broken = result.chip_of is not None and not known.offer(result.chip_of)
            unsure = result.verdict in ("feasible", "unknown")
            if (broken or unsure) and memory and wanted.memory == "estimate":
                room_is_next = True
                continue
            if unsure or (broken and memory):
                break
            # What it found without asking for memory may not fit.
            memory |= broken
        if known.chip_of is not None:
            return ""
        effort = f"{allowed_s:g} deterministic seconds of CP-SAT"
        return f"none is known, and {effort} could not prove that none exists"


def _memory_is_tight(known: Incumbent, problem: PartitionProblem) -> bool:
    if known.chip_of is None or problem.streams:
        return True
    used = evaluate_partition(problem, known.chip_of).memory_bytes
    return bool((used > TIGHT * np.array(problem.limits.sram_bytes)).any())


def _bound(result: SearchResult, ceiling_s: float) -> LowerBound:
    seconds = min(result.bound_s, ceiling_s)
    if result.verdict == "infeasible":
        text = f"CP-SAT proved that no partition is within {seconds_text(seconds)}"
    else:
        text = f"dual bound of CP-SAT, {seconds_text(seconds)}"
    return LowerBound(seconds, text, PROOF)


def _slowest(problem: PartitionProblem) -> float:
    """More than the period of any partition: all work and all transfers one after the other."""
    limits = problem.limits
    work = float(problem.compute_s.sum() + problem.relay_s.sum())
    moved = float(problem.tensor_bytes.sum())
    seconds = work / float(problem.chip_speed.min())
    seconds += moved / limits.link_bytes_per_s + moved / limits.host_bytes_per_s
    if problem.streams:
        seconds += float(weight_rooms(problem).sum()) / limits.stream_bytes_per_s
    return 2.0 * seconds + 1e-9
