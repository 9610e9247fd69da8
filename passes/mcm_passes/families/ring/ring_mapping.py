"""The mapping of rings: data flows to higher chips alone, and links join neighbours."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.mapping import Nearest
from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import (
    Budget,
    Evaluate,
    Ints,
    LowerBound,
    Outcome,
    PartitionProblem,
    PartitionStrategy,
    Start,
)
from mcm_compiler.diagnostics import Diagnostic
from mcm_passes.mapping.machine.any_machine import AnyMachine
from mcm_passes.mapping.machine.periods import AnalyticPeriods

LOOKED_AT_IDEALS, LOOKED_AT_WINDOWS = 20_000, 400_000
"""Limits of a quick look at order ideals on problems of up to `LOOKED_AT_UNITS`."""

LOOKED_AT_UNITS = 1_000
"""On larger problems windows are fewer in proportion, as each takes longer."""


class RingMapping(AnyMachine):
    """That of any machine, with searches and proofs that know rings.

    What only some compiles need is imported where it is used: exact search loads a solver.
    """

    def bound(self, problem: PartitionProblem, known: LowerBound) -> LowerBound:
        """Windows of chips."""
        from mcm_passes.families.ring.order_encoding.chip_windows import windows_bound
        from mcm_passes.mapping.bounds.bounds import MAX_CLOSURE_UNITS

        units = int((~problem.clonable).sum())
        if not 0 < units <= MAX_CLOSURE_UNITS:
            return known
        most_s = 2.0 * float(problem.compute_s.sum()) / float(problem.chip_speed.min())
        bound = windows_bound(problem, known.seconds, max(most_s, known.seconds))
        return bound if bound.seconds > known.seconds else known

    def contradictions(self, problem: PartitionProblem) -> list[Diagnostic]:
        """Dataflow against the ring, and chips that would have to stay empty."""
        from mcm_passes.families.ring.placement_constraints.ring_pins import contradictions

        return contradictions(problem)

    def placements(self, problem: PartitionProblem, most: int) -> Ints | None:
        """Those along the ring that leave no chip below a used one empty."""
        from mcm_passes.families.ring.contiguous.contiguous_windows import all_partitions

        return all_partitions(problem, most)

    def interchangeable(self, problem: PartitionProblem) -> bool:
        """Return whether chips are equal, and each of them reaches the host."""
        limits = problem.limits
        return (
            not limits.at_ends
            and len(set(limits.sram_bytes)) <= 1
            and len(set(limits.chip_speed)) <= 1
        )

    def better(self, problem: PartitionProblem, first: Outcome) -> Ints | None:
        """Search order ideals exactly: partitions that are no cuts of one order.

        Parallel branches `dp` divides up to a third worse. Within these limits it mostly takes
        a few hundredths of a second, and at most about one second, for problems of every size. The
        cost of a window is all that it holds and all that crosses its ends.
        """
        from mcm_passes.families.ring.exact.ideals import Ideals

        more = max(problem.num_units / LOOKED_AT_UNITS, 1.0)
        search = Ideals(ideals=LOOKED_AT_IDEALS, windows=int(LOOKED_AT_WINDOWS / more))
        rng = np.random.default_rng(0)
        budget = Budget(start=Start(problem, first))
        return search.solve(problem, AnalyticPeriods(problem), rng, budget).chip_of

    def nearest(
        self, problem: PartitionProblem, chip_of: Ints, rng: np.random.Generator
    ) -> Nearest:
        """As `nearest_valid`."""
        from mcm_passes.families.ring.placement_constraints.nearest import nearest_valid

        return nearest_valid(problem, chip_of, rng)

    def adapted(self, text: str, strategy: PartitionStrategy) -> PartitionStrategy:
        """The strategy itself: every one knows rings."""
        del text
        return strategy

    def objective_values(self, problem: PartitionProblem, objective: Objective) -> Evaluate:
        """As `ring_objectives.objective_values`."""
        from mcm_passes.families.ring.objectives import ring_objectives

        return ring_objectives.objective_values(problem, objective)

    def latency_s(self, problem: PartitionProblem, chip_of: Ints) -> float:
        """As `ring_objectives.latency_of`."""
        from mcm_passes.families.ring.objectives import ring_objectives

        return ring_objectives.latency_of(problem, chip_of)

    def energy_j(self, problem: PartitionProblem, chip_of: Ints) -> float:
        """As `ring_objectives.energy_of`."""
        from mcm_passes.families.ring.objectives import ring_objectives

        return ring_objectives.energy_of(problem, chip_of)

    def objective_bound(self, problem: PartitionProblem, objective: Objective) -> LowerBound:
        """As `ring_objectives.objective_bound`."""
        from mcm_passes.families.ring.objectives import ring_objectives

        return ring_objectives.objective_bound(problem, objective)


RING_MAPPING = RingMapping()
