"""Strategies for rings, and bounds of rings, on machines of any family.

A strategy that knows rings alone searches the ring that the devices are along an order. What it
finds is evaluated on the machine. A bound comes from the ring that every placement on the machine
fits (`PartitionProblem.reached`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from mcm_compiler.contracts import partition
from mcm_compiler.contracts.mapping import FamilyMapping
from mcm_compiler.machines.machine import RING
from mcm_compiler.registry import MAPPINGS, STRATEGIES
from mcm_passes.mapping.machine.device_order import along, first_order, order_of
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
