"""The contract between passes and a family of machines that models are placed on.

Mappings of families are registered by name as kind `mapping`. A family without one uses the
general mapping of the built-in passes, which knows only devices, channels and routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import (
    Bools,
    Budget,
    Evaluate,
    Floats,
    Ints,
    Longs,
    LowerBound,
    Outcome,
    PartitionProblem,
    PartitionStrategy,
)
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.machines.machine import Machine

Rule = Literal[
    "range", "acyclic", "no_skip", "triangle", "memory", "pin", "unreachable", "unsupported"
]
"""Rules of placements, on any family of machines."""


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes:
        rule: name of the rule.
        message: one sentence with the names and numbers.
        nodes: indices of the nodes involved: both ends of a dependency, a node on the highest
            chip if one is skipped, the largest contributors to an overflow.
        chips: the chips involved; for a triangle, those of its longer path, in order.
        path: `(source, target)` of each dependency on the longer path of a triangle.
    """

    rule: Rule
    message: str
    nodes: tuple[int, ...]
    chips: tuple[int, ...]
    path: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Costs of one placement per inference on C devices that may be used, and L channels.

    Attributes:
        chip_of: `[N]`, the placement, with each clonable unit on the first device with a copy.
        copies: `[K, C]`, the devices that hold a copy of each of the K clonable units.
        chip_busy_s: `[C]`, units, clones and relays, at the device's own speed.
        channel_busy_s: `[L]`, what crosses each channel, streamed weights included.
        memory_bytes: `[C]`, bytes that lowering needs. An estimate counts each distinct weight
            once, and receive and send buffers with all their slots. It adds the peak of live
            activations in the order of the units, times the share that the target's memory plans
            leave for gaps. Streamed weights count with buffers for the largest. At need it is what
            every memory plan of the target takes at least, see `NeededSizes`.
        weight_bytes: `[C]`, the part of it that weights take.
        streamed_bytes: `[C]`, weights that come from off-package memory for every inference.
        period_s: the busiest resource.
        violations: rules that the placement breaks; empty where it is valid.
    """

    chip_of: Ints
    copies: Bools
    chip_busy_s: Floats
    channel_busy_s: Floats
    memory_bytes: Longs
    weight_bytes: Longs
    streamed_bytes: Longs
    period_s: float
    violations: tuple[Violation, ...]

    @property
    def valid(self) -> bool:
        """True if no rule is broken."""
        return not self.violations


class PassedOn(NamedTuple):
    """A tensor that ops on devices between its producer and its readers forward.

    Attributes:
        tensor: its number in the problem.
        maker: the device that makes it.
        received: devices that it arrives on; each after the one that sends it.
        came_from: the device that sends it to each of `received`.
        passed: those of `received` that forward it.
        collected: the one of `passed` that sends it to the host, or -1 if its producer does.
    """

    tensor: int
    maker: int
    received: tuple[int, ...]
    came_from: tuple[int, ...]
    passed: tuple[int, ...]
    collected: int


@dataclass(frozen=True, eq=False)
class Nearest:
    """A valid placement near another one.

    Attributes:
        chip_of: `[N]`, or None if none is known.
        proven: whether no valid placement moves fewer units, or none exists.
        sought: whether a search ran.
    """

    chip_of: Ints | None
    proven: bool
    sought: bool = True


class FamilyMapping(Protocol):
    """Placement of models on the machines of one family."""

    def evaluate(self, problem: PartitionProblem, chip_of: Ints) -> Evaluation:
        """Costs of a placement; its entries for clonable units are ignored."""
        ...

    def periods(self, problem: PartitionProblem) -> Evaluate:
        """Periods of placements, infinite if a rule is broken."""
        ...

    def bound(self, problem: PartitionProblem, known: LowerBound) -> LowerBound:
        """The best bound from proofs of this family alone; `known` if none is better.

        Args:
            problem: counted at need.
            known: the best bound from proofs for every machine.
        """
        ...

    def contradictions(self, problem: PartitionProblem) -> list[Diagnostic]:
        """Reasons of this family why no placement keeps the pins of a problem.

        MCM-F012 each, as far as they are known without a search.
        """
        ...

    def placements(self, problem: PartitionProblem, most: int) -> Ints | None:
        """`[B, N]`, all placements that the dependencies allow.

        None if there are more than `most`, or none, or if the family does not list them.
        """
        ...

    def passed_on(self, problem: PartitionProblem, chip_of: Sequence[int]) -> list[PassedOn]:
        """The tensors that ops on intermediate devices forward; channels forward all others.

        Args:
            problem: the problem.
            chip_of: of each unit.
        """
        ...

    def interchangeable(self, problem: PartitionProblem) -> bool:
        """Return whether one placement serves several equal shares of the devices."""
        ...

    def first(self, problem: PartitionProblem, budget: Budget) -> Outcome:
        """Find a good placement quickly, to compare numbers of replicas."""
        ...

    def better(self, problem: PartitionProblem, first: Outcome) -> Ints | None:
        """Find a better placement with more effort; None if there is none, or no such search.

        Args:
            problem: the problem.
            first: result of `first` for it, as the start.
        """
        ...

    def nearest(
        self, problem: PartitionProblem, chip_of: Ints, rng: np.random.Generator
    ) -> Nearest:
        """Find the valid placement that moves the fewest units of the invalid `chip_of[N]`."""
        ...

    def adapted(self, text: str, strategy: PartitionStrategy) -> PartitionStrategy | None:
        """Return the strategy in a form that supports these machines; None if there is none."""
        ...


@runtime_checkable
class KnowsObjectives(Protocol):
    """A mapping with latencies and energies of placements in addition to periods.

    Without it, a family supports only the least period and the fewest chips.
    """

    def objective_values(self, problem: PartitionProblem, objective: Objective) -> Evaluate:
        """Figure that an objective minimises; infinite if a rule or a limit is broken."""
        ...

    def latency_s(self, problem: PartitionProblem, chip_of: Ints) -> float:
        """Seconds of one inference in an empty package, independent of estimated memory."""
        ...

    def energy_j(self, problem: PartitionProblem, chip_of: Ints) -> float:
        """Joules of one inference, independent of estimated memory; infinite without `energy`."""
        ...

    def objective_bound(self, problem: PartitionProblem, objective: Objective) -> LowerBound:
        """The best lower bound of the minimised figure that needs no search."""
        ...


@runtime_checkable
class KnowsChannels(Protocol):
    """A mapping with the traffic of placements on each channel of a machine."""

    def channel_bytes(self, problem: PartitionProblem, chip_of: Ints, machine: Machine) -> Longs:
        """`[L]`, bytes of one inference of one replica, without streamed weights."""
        ...
