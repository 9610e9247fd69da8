"""The analytic model: costs of a placement, in microseconds instead of a simulation.

Devices and channels are resources that overlap; the busiest sets the period (MCM, section 5.1,
counts chips only; channels are our addition). Families differ in what tensors load on their way.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from mcm_compiler.contracts.mapping import Violation
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_passes.mapping.loads.device_memory import device_memory
from mcm_passes.mapping.loads.problem_arrays import Measured, problem_arrays


@dataclass(frozen=True, eq=False)
class PlacementCost:
    """Costs of one placement per inference on C devices that may be used.

    Attributes:
        chip_of: `[N]`, the placement, with each clonable unit on the first device with a copy.
        copies: `[K, C]`, the devices that hold a copy of each of the K clonable units.
        chip_busy_s: `[C]`, units, clones and relays, at the device's own speed.
        memory_bytes: `[C]`, bytes that lowering needs. An estimate counts each distinct weight
            once, and receive and send buffers with all their slots. It adds the peak of live
            activations in the order of the units, times the share that the target's memory plans
            leave for gaps. Streamed weights count with buffers for the largest. At need it is what
            every memory plan of the target takes at least, see `NeededSizes`.
        weight_bytes: `[C]`, the part of it that weights take.
        period_s: the busiest resource.
        violations: rules that the placement breaks; empty where it is valid.
    """

    chip_of: Ints
    copies: Bools
    chip_busy_s: Floats
    memory_bytes: Longs
    weight_bytes: Longs
    period_s: float
    violations: tuple[Violation, ...]

    @property
    def valid(self) -> bool:
        """True if no rule is broken."""
        return not self.violations


_Models = dict[type["PlacementModel"], "PlacementModel"]

_models: weakref.WeakKeyDictionary[PartitionProblem, _Models] = weakref.WeakKeyDictionary()
"""The models of each problem, by their class."""


class PlacementModel(ABC):
    """A problem prepared for many evaluations.

    Attributes:
        kind: record of what a placement costs.
        arrays: the problem as compiled code takes it.
    """

    kind: ClassVar[type[PlacementCost]]

    def __init__(self, problem: PartitionProblem) -> None:
        self._problem: PartitionProblem = weakref.proxy(problem)
        self.arrays = problem_arrays(problem)

    @classmethod
    def of(cls, problem: PartitionProblem) -> Self:
        """The model of this class, kept as long as the problem lives; ValueError as the class."""
        models = _models.setdefault(problem, {})
        if cls not in models:
            # A class refuses the problems of other machines, whatever is known of them.
            models[cls] = cls(problem)
        return cast("Self", models[cls])

    @abstractmethod
    def loads(self, chip_of: Ints) -> Measured:
        """Loads of all resources; `chip_of[N]` is in range."""

    @abstractmethod
    def channels(self, found: Measured, streamed: Longs) -> dict[str, Floats]:
        """Seconds of all resources but the devices, by the names that `kind` has for them.

        Args:
            found: what a placement loads.
            streamed: `[C]`, bytes of weights that devices stream.
        """

    @abstractmethod
    def broken(self, chip_of: Ints, memory: Longs) -> Sequence[Violation]:
        """The rules that a placement breaks whose devices need so much memory."""

    def evaluate(self, chip_of: Ints) -> Any:
        """The costs of `chip_of`, a `kind`; its entries for clonable units are not looked at.

        Args:
            chip_of: `[N]`. Out-of-range entries make the evaluation invalid, not an error.
        """
        problem = self._problem
        inside = np.clip(chip_of, 0, problem.num_chips - 1).astype(np.int32)
        in_range = bool(np.array_equal(inside[~problem.clonable], chip_of[~problem.clonable]))
        found = self.loads(inside)
        # numpy's argmax gives the first device that holds a copy.
        inside[problem.clonable] = found.copies.argmax(axis=1)
        memory, streamed = device_memory(
            problem, found.held, found.weights, found.largest, found.peak
        )
        busy, channels = found.busy_s / problem.chip_speed, self.channels(found, streamed)
        return self.kind(
            chip_of=inside,
            copies=found.copies,
            chip_busy_s=busy,
            memory_bytes=memory,
            weight_bytes=found.weights,
            period_s=max(float(load.max(initial=0.0)) for load in (busy, *channels.values())),
            violations=tuple(self.broken(inside if in_range else chip_of, memory)),
            **channels,
        )
