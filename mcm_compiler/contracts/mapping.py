"""The contract of placing models on a family of machines: what the passes ask of it.

Families are found by name under `mcm_compiler.mappings`. One that has none is served by the general
mapping of the built-in passes, which knows devices, channels and routes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mcm_compiler.contracts.levels import Level
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

Rule = Literal["range", "acyclic", "no_skip", "triangle", "memory", "pin", "unreachable"]
"""Rules of placements, on whatever family of machines."""


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes:
        rule: which one.
        message: one sentence with the names and numbers.
        nodes: indices of the nodes involved: both ends of a dependency, a node on the highest
            chip where one is skipped, the largest contributors to an overflow.
        chips: the chips involved; of a triangle those of its longer path, in order.
        path: `(source, target)` of each dependency on the longer path of a triangle.
    """

    rule: Rule
    message: str
    nodes: tuple[int, ...]
    chips: tuple[int, ...]
    path: tuple[tuple[int, int], ...] = ()


class Evaluation(Protocol):
    """What one placement costs per inference on C devices, whatever else a family tells of it.

    Attributes:
        chip_of: `[N]`, the placement, with each clonable unit on the first device with a copy.
        copies: `[K, C]`, the devices that hold a copy of each of the K clonable units.
        chip_busy_s: `[C]`.
        memory_bytes: `[C]`.
        weight_bytes: `[C]`, the part of it that weights take.
        period_s: the busiest resource.
        violations: rules that the placement breaks; empty where it is valid.
    """

    @property
    def chip_of(self) -> Ints: ...
    @property
    def copies(self) -> Bools: ...
    @property
    def chip_busy_s(self) -> Floats: ...
    @property
    def memory_bytes(self) -> Longs: ...
    @property
    def weight_bytes(self) -> Longs: ...
    @property
    def period_s(self) -> float: ...
    @property
    def violations(self) -> tuple[Violation, ...]: ...
    @property
    def valid(self) -> bool:
        """Whether no rule is broken."""
        ...


class PassedOn(NamedTuple):
    """A tensor that ops on devices between its maker and its readers pass on.

    Attributes:
        tensor: its number in the problem.
        maker: the device that makes it.
        received: devices that it arrives on, in this order.
        passed: those of them that send it on.
        collected: whether the host gets what the last of them sends on, and not from its maker.
    """

    tensor: int
    maker: int
    received: tuple[int, ...]
    passed: tuple[int, ...]
    collected: bool


@dataclass(frozen=True, eq=False)
class Nearest:
    """A valid placement near another one.

    Attributes:
        chip_of: `[N]`, or None where none is known.
        proven: whether no valid placement moves fewer units, or there is none at all.
        sought: whether one was looked for.
    """

    chip_of: Ints | None
    proven: bool
    sought: bool = True


class FamilyMapping(Protocol):
    """How models are placed on the machines of one family."""

    def evaluate(self, problem: PartitionProblem, chip_of: Ints) -> Evaluation:
        """What a placement costs; its entries for clonable units are not looked at."""
        ...

    def periods(self, problem: PartitionProblem) -> Evaluate:
        """The period of placements, infinite where a rule is broken."""
        ...

    def bound(self, problem: PartitionProblem, known: LowerBound) -> LowerBound:
        """The best bound with arguments that hold on this family alone, `known` if none is better.

        Args:
            problem: counted at need.
            known: the best bound that holds on every machine.
        """
        ...

    def contradictions(self, problem: PartitionProblem) -> list[Diagnostic]:
        """Why no placement keeps the pins of a problem, beyond what holds on every machine.

        MCM-F012 each, as far as it shows without a search.
        """
        ...

    def placements(self, problem: PartitionProblem, most: int) -> Ints | None:
        """`[B, N]`, all placements that the dependencies allow.

        None where there are more than `most`, or none, or where the family does not list them.
        """
        ...

    def passed_on(
        self, problem: PartitionProblem, chip_of: Sequence[int], num_chips: int
    ) -> list[PassedOn]:
        """The tensors that need ops on devices between; channels pass on all others by themselves.

        Args:
            problem: the problem.
            chip_of: of each unit.
            num_chips: devices that are used.
        """
        ...

    def interchangeable(self, problem: PartitionProblem) -> bool:
        """Whether one placement serves several equal shares of the devices."""
        ...

    def first(self, problem: PartitionProblem, budget: Budget) -> Outcome:
        """A good placement, quickly: to compare numbers of pipelines with."""
        ...

    def better(self, problem: PartitionProblem, first: Outcome) -> Ints | None:
        """A better one with more effort; None where nothing is found, or none is sought.

        Args:
            problem: the problem.
            first: what `first` found for it, to begin with.
        """
        ...

    def nearest(
        self, problem: PartitionProblem, chip_of: Ints, rng: np.random.Generator
    ) -> Nearest:
        """The valid placement that moves the fewest units of `chip_of[N]`, which breaks a rule."""
        ...

    def strategy(self, level: Level) -> str:
        """Text form of the strategy that a level stands for."""
        ...

    def serves(self, strategy: PartitionStrategy) -> bool:
        """Whether a strategy can place on these machines."""
        ...


@runtime_checkable
class KnowsObjectives(Protocol):
    """A mapping that tells what placements come to beside their period.

    A family whose mapping does not can be asked for the period alone, and for the fewest chips.
    """

    def objective_values(self, problem: PartitionProblem, objective: Objective) -> Evaluate:
        """What an objective wants small; infinite where a rule is broken, or a limit not kept."""
        ...

    def latency_s(self, problem: PartitionProblem, chip_of: Ints) -> float:
        """When one inference is answered by an empty package, whatever memory is estimated."""
        ...

    def energy_j(self, problem: PartitionProblem, chip_of: Ints) -> float:
        """Joules of one inference, whatever memory is estimated; infinite without `energy`."""
        ...

    def objective_bound(self, problem: PartitionProblem, objective: Objective) -> LowerBound:
        """What an objective wants small is never less: the best bound that needs no search."""
        ...


@runtime_checkable
class KnowsChannels(Protocol):
    """A mapping that gives what placements put on each channel of a machine."""

    def channel_bytes(self, problem: PartitionProblem, chip_of: Ints, machine: Machine) -> Longs:
        """`[L]`, bytes of one inference of one pipeline, but for streamed weights."""
        ...
