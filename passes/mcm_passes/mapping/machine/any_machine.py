"""The mapping of machines whose family has none of its own.

It takes strategies for rings, and bounds of rings. A strategy that knows rings alone searches the
ring that the devices are along an order. What it finds is evaluated on the machine. A bound comes
from the ring that every placement on the machine fits (`PartitionProblem.reached`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, cast

import numpy as np

from mcm_compiler.contracts import partition
from mcm_compiler.contracts.mapping import Evaluation, FamilyMapping, Nearest, PassedOn
from mcm_compiler.contracts.partition import (
    Budget,
    Ints,
    Longs,
    LowerBound,
    Outcome,
    PartitionProblem,
    PartitionStrategy,
    Start,
    knows_machines,
)
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.machines.machine import HOST, RING, Machine
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.registry import MAPPINGS, STRATEGIES
from mcm_passes.mapping.machine.device_order import along, first_order, order_of
from mcm_passes.mapping.machine.evaluation import MachineModel
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import answer_of, strategy_of
from mcm_passes.mapping.search.search import Search

EXACT = "ideals"
"""The strategy that proves bounds."""

EXACT_SHARE = 0.1
"""Share of the effort for solvers: an optimum along the devices is none of the machine."""


@dataclass(frozen=True)
class AlongDevices:
    """A strategy for rings, on any machine.

    Attributes:
        text: text form of the strategy.
        strategy: the strategy.
    """

    any_machine: ClassVar[bool] = True

    text: str
    strategy: partition.PartitionStrategy

    @property
    def name(self) -> str:
        """Name of the strategy."""
        return self.strategy.name

    @property
    def summary(self) -> str:
        """One line about it."""
        return self.strategy.summary

    def solve(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        rng: np.random.Generator,
        budget: partition.Budget,
    ) -> partition.Outcome:
        """Searches along the devices; the bound is one of the machine."""
        if RING not in MAPPINGS:
            return partition.Outcome(None, 0, f"'{self.name}' knows rings, and nothing else does")
        search = Search(problem, evaluate, budget)
        search.recall(*budget.known)
        best = search.best
        order = first_order(problem) if best is None else order_of(problem, best)
        line = along(problem, order)
        part = dataclasses.replace(
            budget,
            effort_s=budget.effort_s * EXACT_SHARE,
            known=(),
            start=None,
            evaluator=None,
            monitor=partition.SearchMonitor(None, budget.monitor),
        )
        periods = ring_mapping().periods(line)
        found = answer_of(self.text, self.strategy, line, periods, rng, part)
        search.spend(found.evaluations)
        rows = (found.chip_of, *found.runners_up)
        search.recall(*(order.devices(row) for row in rows if row is not None))
        search.prove(exact_bound(problem, rng, search))
        return dataclasses.replace(search.outcome(found.reason), found_by=found.found_by)


def exact_bound(
    problem: partition.PartitionProblem, rng: np.random.Generator, search: Search
) -> partition.LowerBound | None:
    """The bound of all placements by order ideals; None where there is none, or none is needed."""
    if EXACT not in STRATEGIES or search.enough:
        return None
    ring = problem.at_need().reached()
    budget = partition.Budget(evaluations=1_000)
    found = answer_of(EXACT, strategy_of(EXACT), ring, ring_mapping().periods(ring), rng, budget)
    return found.bound


def ring_mapping() -> FamilyMapping:
    """The mapping of rings.

    Raises:
        CompileError: MCM-U003 where nothing knows rings.
    """
    return cast("FamilyMapping", MAPPINGS.get(RING))


FIRST, BETTER = "dp", "local_search"
"""Strategies that find first placements, and better ones."""

BETTER_EVALUATIONS = 4_000
"""A number of replicas that could win is searched with as many: first placements are far from
what a search of the default level finds."""


class AnyMachine:
    """Implements `FamilyMapping`: devices, channels and routes are all that it knows."""

    def evaluate(self, problem: PartitionProblem, chip_of: Ints) -> Evaluation:
        """As `MachineModel.evaluate`."""
        return MachineModel.of(problem).evaluate(chip_of)

    def periods(self, problem: PartitionProblem) -> AnalyticPeriods:
        """The period of placements, infinite where a rule is broken; one or many at once."""
        return AnalyticPeriods(problem)

    def bound(self, problem: PartitionProblem, known: LowerBound) -> LowerBound:
        """Bound by windows of chips on the ring that every placement fits."""
        return ring_mapping().bound(problem.reached(), known) if RING in MAPPINGS else known

    def contradictions(self, problem: PartitionProblem) -> list[Diagnostic]:
        """None that would show: data may flow to any device, and any may stay empty."""
        del problem
        return []

    def placements(self, problem: PartitionProblem, most: int) -> Ints | None:
        """The only one on a single device; others are not listed."""
        del most
        return np.zeros((1, problem.num_units), np.int32) if problem.num_chips == 1 else None

    def passed_on(self, problem: PartitionProblem, chip_of: Sequence[int]) -> list[PassedOn]:
        """Tensors that engines pass on; routes from the device that makes one form a tree."""
        machine, found = problem.machine, list[PassedOn]()
        if not (problem.relays if problem.on_ring else machine.relays):
            return found
        made = (problem.tensor_producer >= 0) & ~problem.clonable[
            np.maximum(problem.tensor_producer, 0)
        ]
        for t in np.flatnonzero(made).tolist():
            maker = int(chip_of[problem.tensor_producer[t]])
            readers = {int(chip_of[u]) for u in problem.placed_readers.row(t).tolist()} - {maker}
            came_from: dict[int, int] = {}
            for reader in sorted(readers, key=lambda one: (len(machine.route(maker, one)), one)):
                for before, device in pairwise(machine.places(maker, reader)):
                    came_from.setdefault(device, before)
            passed = {before for before in came_from.values() if before != maker}
            out = [one for one in machine.places(maker, HOST) if one in passed]
            collected = out[-1] if out and problem.tensor_to_host[t] else -1
            if passed:
                received = tuple(came_from)
                relays = tuple(device for device in received if device in passed)
                found.append(
                    PassedOn(t, maker, received, tuple(came_from.values()), relays, collected)
                )
        return found

    def channel_bytes(self, problem: PartitionProblem, chip_of: Ints, machine: Machine) -> Longs:
        """As the evaluation counts them."""
        return MachineModel.of(problem).loads(chip_of, machine).crossed

    def interchangeable(self, problem: PartitionProblem) -> bool:
        """Return whether several shares of the devices are alike."""
        return len(equal_shares(problem.num_chips, problem.machine)) > 1

    def first(self, problem: PartitionProblem, budget: Budget) -> Outcome:
        """Cuts by `dp` along the devices."""
        rng = np.random.default_rng(0)
        return answer_of(FIRST, strategy_of(FIRST), problem, self.periods(problem), rng, budget)

    def better(self, problem: PartitionProblem, first: Outcome) -> Ints | None:
        """Placements that `local_search` finds."""
        known = () if first.chip_of is None else (first.chip_of,)
        budget = Budget(evaluations=BETTER_EVALUATIONS, known=known, start=Start(problem, first))
        rng, periods = np.random.default_rng(0), self.periods(problem)
        return answer_of(BETTER, strategy_of(BETTER), problem, periods, rng, budget).chip_of

    def nearest(
        self, problem: PartitionProblem, chip_of: Ints, rng: np.random.Generator
    ) -> Nearest:
        """None is sought."""
        del problem, chip_of, rng
        return Nearest(None, proven=False, sought=False)

    def adapted(self, text: str, strategy: PartitionStrategy) -> PartitionStrategy:
        """The strategy itself where it knows machines, else one that runs it along the devices."""
        return strategy if knows_machines(strategy) else AlongDevices(text, strategy)


ANY_MACHINE = AnyMachine()
