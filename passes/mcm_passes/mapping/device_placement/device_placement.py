"""The cost `device-placement`: time per sample as Tarnawski et al. 2020 define it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.partition import Ints, LowerBound
from mcm_compiler.contracts.placement import Placement, PlacementRequest
from mcm_compiler.contracts.requests import Rule
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.text import spec_text
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.device_placement.device_chains import (
    MOST_IDEALS,
    MOST_SAMPLED_IDEALS,
    ChainSearch,
    DeviceChain,
    Reading,
    all_ideals,
    sampled_chain,
)
from mcm_passes.mapping.device_placement.device_groups import (
    DeviceGroups,
    answerable_groups,
    not_found,
    partition_problem,
    with_free,
)
from mcm_passes.mapping.device_placement.device_loads import device_loads
from mcm_passes.mapping.search.named import answer_of, strategy_of

MOST_SAMPLED_GROUPS = 4096
"""Groups up to which ideals are sampled; above, `dp` cuts orders of them."""

MOST_STATES = 20_000_000
"""Ideals times numbers of devices that a search may keep; 12 bytes each."""

SLACK = 1e-9
"""Relative space for sums that are taken in another order."""


@dataclass(frozen=True)
class DevicePlacement:
    """Computation and communication of a device add up; the busiest device sets the period.

    Exact where the graph has few order ideals; else the best chain of sampled ones. With a
    partitioner, a registered strategy searches, and the evaluator of this cost decides.
    """

    name: ClassVar[str] = "device-placement"
    summary: ClassVar[str] = "compute + communication per device (Tarnawski et al. 2020)"

    def place(self, request: PlacementRequest) -> Placement:
        """Places the operators; MCM-F005 to MCM-F007, MCM-P009, MCM-U001 to MCM-U003."""
        problem = request.problem
        groups = answerable_groups(problem, request.rule)
        found = _Search(groups, request)
        if request.partitioner is not None:
            device_of, method = found.by_strategy(request.partitioner)
        elif found.exact is None and not found.samples:
            if problem.max_cpus:
                reason = (
                    f"{groups.count:,} groups of nodes and {problem.max_accelerators} accelerators "
                    f"are too many to search with {count_text(problem.max_cpus, 'CPU')}"
                )
                hint = "give fewer devices (--max-cpus 0, --max-accelerators)"
                raise not_found(problem, request.rule, reason, hint)
            device_of, method = found.by_strategy("dp")
        else:
            device_of, method = found.by_ideals()
        loads = device_loads(problem, device_of, request.rule)
        if loads.violations:
            raise CompileError(
                [
                    Diagnostic(
                        "MCM-P009",
                        f"'{method}' returned an invalid placement: {violation}",
                        at=problem.source,
                    )
                    for violation in loads.violations[:5]
                ]
            )
        bound = found.bound()
        without_rule = found.period_without_rule()
        price = None
        if without_rule is not None and without_rule > 0.0:
            price = max(loads.period / without_rule - 1.0, 0.0)
        return Placement(
            device_of,
            method,
            found.evaluations,
            device_load=loads.load,
            period=loads.period,
            lower_bound=(
                bound.seconds if bound.seconds < loads.period * (1.0 - SLACK) else loads.period
            ),
            argument=bound.argument,
            proof=bound.proof,
            price=price,
        )


class _Search:
    """One problem, with what is found out about it on the way."""

    def __init__(self, groups: DeviceGroups, request: PlacementRequest) -> None:
        self.problem = problem = request.problem
        self.groups, self.request = groups, request
        kinds = (problem.max_accelerators, problem.max_cpus)
        numbers = math.prod(min(devices, groups.count) + 1 for devices in kinds)
        members = all_ideals(groups, min(MOST_IDEALS, MOST_STATES // numbers))
        self.samples = (
            groups.count <= MOST_SAMPLED_GROUPS and MOST_SAMPLED_IDEALS * numbers <= MOST_STATES
        )
        self.exact = None if members is None else ChainSearch(problem, groups, members)
        self.ideals = 0 if members is None else len(members)
        self.evaluations = 0
        self._known: dict[Reading, DeviceChain | None] = {}

    def by_ideals(self) -> tuple[Ints, str]:
        """The best chain, and the method's name.

        Under `strict` the best that is allowed to say so beforehand or turns out to be valid.
        """
        rule = self.request.rule
        readings: dict[Rule, tuple[Reading, ...]] = {
            "none": ("none",),
            "relay": ("relay",),
            "strict": ("between", "adjacent"),
        }
        best: Ints | None = None
        for reading in readings[rule]:
            chain = self._chain(reading)
            if chain is None:
                continue
            device_of = self._spread(chain)
            if not device_loads(self.problem, device_of, rule).violations:
                best = device_of
                break
        if best is None:
            raise not_found(self.problem, rule, self._why_none())
        return best, "ideals" if self.exact is not None else "sampled-ideals"

    def by_strategy(self, text: str) -> tuple[Ints, str]:
        """Placement that a registered strategy finds, and its text."""
        spec = spec_text.parse_one(text)
        strategy = strategy_of(text)
        text = spec_text.print_one(spec.name, strategy)
        problem, request = self.problem, self.request
        if problem.max_cpus or not problem.max_accelerators:
            raise CompileError.of(
                "MCM-F005",
                f"strategy '{text}' places on accelerators alone, and the problem has "
                f"{count_text(problem.max_cpus, 'CPU')}",
                at=problem.source,
                hint="give --max-cpus 0, or no --partitioner",
            )
        arrays = partition_problem(problem, self.groups, request.rule)
        outcome = answer_of(
            text,
            strategy,
            arrays,
            self._evaluator(),
            seeded_generator(request.seed, f"placement/{text}"),
            request.budget,
        )
        self.evaluations = outcome.evaluations
        if outcome.chip_of is None:
            raise not_found(problem, request.rule, outcome.reason)
        return with_free(problem, self.groups, outcome.chip_of, outcome.chip_of), text

    def bound(self) -> LowerBound:
        """The best lower bound that is known, and why it holds."""
        problem, groups, rule = self.problem, self.groups, self.request.rule
        devices = problem.max_accelerators + problem.max_cpus
        if self.exact is not None:
            readings: dict[Rule, Reading] = {"none": "none", "relay": "relay", "strict": "between"}
            chain = self._chain(readings[rule])
            relaxed = ", the triangle rule in part" if rule == "strict" else ""
            text = (
                f"no chain of the {count_text(self.ideals, 'order ideal')} of "
                f"{count_text(groups.count, 'group')} on {count_text(devices, 'device')} is "
                f"faster{relaxed}"
            )
            return LowerBound(float("inf") if chain is None else chain.period, text, "ideals")
        least = groups.accelerator_time
        if problem.max_cpus:
            least = np.minimum(least, groups.cpu_time)
        shared, heaviest = float(least.sum()) / devices, float(least.max())
        if heaviest > shared:
            return LowerBound(heaviest, "the group of nodes that takes longest", "heaviest_unit")
        text = f"all time of all nodes on {count_text(devices, 'device')}"
        return LowerBound(shared, text, "total_work")

    def period_without_rule(self) -> float | None:
        """Period of the best chain under the rule `none`; None where that is the rule."""
        if self.request.rule == "none" or (self.exact is None and not self.samples):
            return None
        chain = self._chain("none")
        return None if chain is None else chain.period

    def _chain(self, reading: Reading) -> DeviceChain | None:
        if reading not in self._known:
            if self.exact is not None:
                self._known[reading] = self.exact.optimum(reading)
            else:
                rng = seeded_generator(self.request.seed, f"placement/{reading}")
                self._known[reading] = sampled_chain(self.problem, self.groups, reading, rng)
        return self._known[reading]

    def _spread(self, chain: DeviceChain) -> Ints:
        return with_free(self.problem, self.groups, chain.device_of, chain.step_of)

    def _evaluator(self) -> Callable[[Ints], float]:
        rule = self.request.rule

        def evaluate(chip_of: Ints) -> float:
            loads = device_loads(
                self.problem, with_free(self.problem, self.groups, chip_of, chip_of), rule
            )
            return float("inf") if loads.violations else loads.period

        return evaluate

    def _why_none(self) -> str:
        if self.exact is None:
            return (
                f"none was found among sampled orders of {self.groups.count:,} groups of nodes, "
                "which is no proof that there is none"
            )
        return (
            f"none of the chains of {count_text(self.ideals, 'order ideal')} keeps the memory of "
            "the accelerators and the rule"
        )
