"""Strategies for rings on machines of any family: along a walk over the devices.

Neighbours of a walk are close to each other, so a machine looks like a ring along it, except for
tensors that take another way. A strategy searches that ring. What it finds is evaluated on the
machine, and improved there by moves of units and stages. A bound comes from the ring that every
placement on the machine fits (`PartitionProblem.reached`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from mcm_compiler.contracts import partition
from mcm_compiler.contracts.mapping import FamilyMapping
from mcm_compiler.machines.machine import RING, Machine
from mcm_compiler.registry import MAPPINGS, STRATEGIES
from mcm_passes.mapping.machine.device_order import walks_over_devices
from mcm_passes.mapping.machine.evaluation import MachineModel
from mcm_passes.mapping.machine.stages import Stages
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
        moves: whether what it finds is improved on the machine, and a bound proven; else the search
            ends with it.
    """

    text: str
    strategy: partition.PartitionStrategy
    moves: bool = True

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
        """Searches along the devices, then on the machine."""
        search = Search(problem, evaluate, budget)
        for known in budget.known:
            search.offer(known, evaluate(known))
        line, devices = ring_along(problem, problem.machine)
        periods = ring_mapping().periods(line)
        part = dataclasses.replace(
            budget,
            effort_s=budget.effort_s * EXACT_SHARE,
            known=(),
            start=None,
            evaluator=None,
            monitor=partition.SearchMonitor(None, budget.monitor),
        )
        found = answer_of(self.text, self.strategy, line, periods, rng, part)
        search.spend(found.evaluations)
        rows = [] if found.chip_of is None else [found.chip_of, *found.runners_up]
        for row in rows:
            placed = devices[row].astype(np.int32)
            search.offer(placed, evaluate(placed))
        if not self.moves:
            return search.outcome(found.reason)
        before, reason = search.best, found.reason
        if not search.enough:
            share = dataclasses.replace(search.share(1), evaluations=budget.evaluations)
            if before is None:
                # Another order of devices may have room where the walk has none.
                improved = Stages().solve(problem, evaluate, rng, share)
            else:
                best = min(rows, key=lambda row: evaluate(devices[row].astype(np.int32)))
                on_machine = Search(problem, evaluate, share)
                improved = Stages().improve(on_machine, rng, share, [best])
            reason = improved.reason
            search.spend(improved.evaluations)
            for row in (improved.chip_of, *improved.runners_up):
                if row is not None:
                    search.offer(row, evaluate(row))
        outcome = search.outcome(reason, exact_bound(problem, rng, search))
        finder = found.found_by if search.best is before else Stages.name
        return dataclasses.replace(outcome, found_by=finder)


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


QUICK = "dp"
"""The strategy that finds first placements, and compares orders of devices."""


def ring_along(
    problem: partition.PartitionProblem, machine: Machine
) -> tuple[partition.PartitionProblem, partition.Longs]:
    """The problem on a ring along a walk over the devices, and `[C]` the devices of its chips.

    Where devices differ, the walk is the one along which `dp` finds the fastest placement.
    """
    walks = walks_over_devices(machine, problem.num_chips)
    rings = [(_along(problem, machine, devices), devices) for devices in walks]
    if len(rings) == 1 or QUICK not in STRATEGIES:
        return rings[0]
    return min(rings, key=lambda ring: _quick_period_s(problem, *ring))


def _quick_period_s(
    problem: partition.PartitionProblem,
    ring: partition.PartitionProblem,
    devices: partition.Longs,
) -> float:
    """The period, on the machine, of what `dp` finds on a ring; infinite where it is not valid."""
    periods, budget = ring_mapping().periods(ring), partition.Budget(evaluations=1_000)
    rng = np.random.default_rng(0)
    found = answer_of(QUICK, strategy_of(QUICK), ring, periods, rng, budget)
    if found.chip_of is None:
        return float("inf")
    evaluation = MachineModel.of(problem).evaluate(devices[found.chip_of].astype(np.int32))
    return evaluation.period_s if evaluation.valid else float("inf")


def _along(
    problem: partition.PartitionProblem, machine: Machine, devices: partition.Longs
) -> partition.PartitionProblem:
    """The problem on a ring whose chips are the devices in an order."""
    limits, rates = problem.limits, machine.channel_bytes_per_s
    hops = [machine.route(a, b) for a, b in pairwise(devices.tolist())]
    rate = min((float(rates[list(hop)].min()) for hop in hops if hop), default=0.0)
    # Along a line a kind of chip is a speed: what all units take, with what they take there.
    on_kind_s = np.maximum(problem.unit_seconds.sum(axis=1), 1e-300)
    speed = problem.chip_speed * (float(problem.compute_s.sum()) / on_kind_s)[problem.kind_of]
    place = np.full(machine.num_devices, -1, np.int32)
    place[devices] = np.arange(devices.size)
    pinned = np.where(problem.pinned_chip >= 0, place[problem.pinned_chip], -1).astype(np.int32)
    ring = dataclasses.replace(
        limits,
        sram_bytes=tuple(limits.sram_bytes[d] for d in devices.tolist()),
        chip_speed=tuple(speed[devices].tolist()),
        link_bytes_per_s=rate or limits.link_bytes_per_s,
        link_latency_s=(),
        forwarding="router",
    )
    return dataclasses.replace(
        problem,
        given_machine=None,
        routing="relay",
        limits=ring,
        pinned_chip=pinned,
        kinds=None,
        copies=None if problem.copies is None else problem.copies.least,
    )


def ring_mapping() -> FamilyMapping:
    """The mapping of rings.

    Raises:
        CompileError: MCM-U003 where nothing knows rings.
    """
    return cast("FamilyMapping", MAPPINGS.get(RING))
