"""The fast model of machines: what a placement costs, in microseconds instead of a simulation.

Devices and channels are resources that overlap; the busiest sets the period.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.mapping import Violation
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.machines.machine import Machine
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_passes.mapping.loads.device_memory import device_memory
from mcm_passes.mapping.loads.problem_arrays import problem_arrays
from mcm_passes.mapping.machine.load_kernels import MachineLoads, loads_on_machine, route_arrays


@dataclass(frozen=True, eq=False)
class MachineEvaluation:
    """What one placement costs per inference, on C devices that may be used and L channels.

    Attributes:
        chip_of: `[N]`, the placement, with each clonable unit on the first device with a copy.
        copies: `[K, C]`, the devices that hold a copy of each of the K clonable units.
        chip_busy_s: `[C]`, units and clones, at the device's own speed.
        channel_busy_s: `[L]`, what crosses each channel, streamed weights included.
        memory_bytes: `[C]`, as in `fast_model.RingEvaluation`.
        weight_bytes: `[C]`, the part of it that weights take.
        period_s: the busiest resource.
        violations: rules that the placement breaks; empty where it is valid.
    """

    chip_of: Ints
    copies: Bools
    chip_busy_s: Floats
    channel_busy_s: Floats
    memory_bytes: Longs
    weight_bytes: Longs
    period_s: float
    violations: tuple[Violation, ...]

    @property
    def valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations


class MachineModel:
    """A problem prepared for many evaluations.

    Args:
        problem: one with a machine.

    Raises:
        ValueError: if it has none.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        if problem.machine is None:
            raise ValueError("the problem is placed on a ring")
        self._problem = weakref.proxy(problem)
        self._machine: Machine = problem.machine
        self.arrays = problem_arrays(problem)
        self.routes = route_arrays(problem.machine)

    def loads(self, chip_of: Ints) -> MachineLoads:
        """Loads of all resources; `chip_of[N]` is in range."""
        return loads_on_machine(self.arrays, self.routes, chip_of)

    def evaluate(self, chip_of: Ints) -> MachineEvaluation:
        """What `chip_of` costs; its entries for clonable units are not looked at.

        Args:
            chip_of: `[N]`. Out-of-range entries make the evaluation invalid, not an error.
        """
        problem: PartitionProblem = self._problem
        machine = self._machine
        inside = np.clip(chip_of, 0, problem.num_chips - 1).astype(np.int32)
        in_range = bool(np.array_equal(inside[~problem.clonable], chip_of[~problem.clonable]))
        found = self.loads(inside)
        placed = inside.copy()
        placed[problem.clonable] = found.copies.argmax(axis=1)
        memory, streamed = device_memory(
            problem, found.held, found.weights, found.largest, found.peak
        )
        crossed = found.channel_bytes.astype(np.float64)
        first = machine.num_devices * (machine.num_devices + 2)
        for c in np.flatnonzero(streamed).tolist():
            np.add.at(crossed, machine.routes.row(first + c), float(streamed[c]))
        busy = found.busy_s / problem.chip_speed
        channel_busy = crossed / machine.channel_bytes_per_s
        checked = placed if in_range else chip_of
        return MachineEvaluation(
            chip_of=placed,
            copies=found.copies,
            chip_busy_s=busy,
            channel_busy_s=channel_busy,
            memory_bytes=memory,
            weight_bytes=found.weights,
            period_s=max(float(busy.max(initial=0.0)), float(channel_busy.max(initial=0.0))),
            violations=tuple(find_placement_violations(problem, checked, memory)),
        )


_models: weakref.WeakKeyDictionary[PartitionProblem, MachineModel] = weakref.WeakKeyDictionary()


def machine_model(problem: PartitionProblem) -> MachineModel:
    """The model of a problem with a machine, kept as long as the problem lives.

    Raises:
        ValueError: if the problem has no machine.
    """
    model = _models.get(problem)
    if model is None:
        model = _models[problem] = MachineModel(problem)
    return model
