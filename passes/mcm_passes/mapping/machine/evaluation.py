"""The analytic model: costs of a placement, in microseconds instead of a simulation.

Devices and channels are resources that overlap; the busiest sets the period (MCM, section 5.1,
counts chips only; channels are our addition). Everything that legalisation adds is charged: copies
of units on every device that reads them, relays on the devices between, and their memory; and the
copies of views that lowering makes. A ring is a machine like all others, with rules of its own.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.mapping import Violation
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.machines.machine import Machine
from mcm_compiler.placements.compiled_rules import copies_of
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_passes.mapping.loads.device_memory import device_memory
from mcm_passes.mapping.loads.problem_arrays import Measured, no_loads, problem_arrays
from mcm_passes.mapping.machine.load_kernels import count_loads, on_devices, route_arrays


@dataclass(frozen=True, eq=False)
class PlacementCost:
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


_models: weakref.WeakKeyDictionary[PartitionProblem, MachineModel] = weakref.WeakKeyDictionary()


class MachineModel:
    """A problem prepared for many evaluations.

    Attributes:
        arrays: the problem as compiled code takes it.
        routes: those of its machine, likewise.
        bytes_per_s: `[L]`, rate of each channel.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        self._problem: PartitionProblem = weakref.proxy(problem)
        self.arrays = problem_arrays(problem)
        self.routes = route_arrays(problem)
        self._on = on_devices(self.routes, problem.num_chips)
        self.bytes_per_s = np.array(problem.machine.channel_bytes_per_s, np.float64)

    @classmethod
    def of(cls, problem: PartitionProblem) -> MachineModel:
        """The model of a problem, kept as long as that lives."""
        if problem not in _models:
            _models[problem] = cls(problem)
        return _models[problem]

    def loads(self, chip_of: Ints, machine: Machine | None = None) -> Measured:
        """Loads of all resources, streamed weights left out.

        Args:
            chip_of: `[N]`, in range.
            machine: one with further devices behind those of the problem; its own where None.
        """
        on = self._on
        if machine is not None:
            on = on_devices(route_arrays(self._problem, machine), self.arrays.num_chips)
        found = no_loads(self.arrays, on.routes.leads_to.size)
        count_loads(self.arrays, on, np.asarray(chip_of, np.int32), found)
        return found

    def evaluate(self, chip_of: Ints) -> PlacementCost:
        """The costs of `chip_of`; its entries for clonable units are not looked at.

        Args:
            chip_of: `[N]`. Out-of-range entries make the evaluation invalid, not an error.
        """
        problem = self._problem
        inside = np.clip(chip_of, 0, problem.num_chips - 1).astype(np.int32)
        in_range = bool(np.array_equal(inside[~problem.clonable], chip_of[~problem.clonable]))
        found = self.loads(inside)
        users = self.arrays.clone_users
        copies = copies_of(
            self.arrays.clone_row, users.ptr, users.entries, inside, problem.num_chips
        )
        # numpy's argmax gives the first device that holds a copy.
        inside[problem.clonable] = copies.argmax(axis=1)
        memory, streamed = device_memory(
            problem, found.held, found.weights, found.largest, found.peak
        )
        crossed, machine = found.crossed.astype(np.float64), problem.machine
        first = machine.num_devices * (machine.num_devices + 2)
        for c in np.flatnonzero(streamed).tolist():
            np.add.at(crossed, machine.routes.row(first + c), float(streamed[c]))
        busy_s, channel_s = found.busy_s / problem.chip_speed, crossed / self.bytes_per_s
        placed = inside if in_range else chip_of
        return PlacementCost(
            chip_of=inside,
            copies=copies,
            chip_busy_s=busy_s,
            channel_busy_s=channel_s,
            memory_bytes=memory,
            weight_bytes=found.weights,
            streamed_bytes=streamed,
            period_s=max(float(busy_s.max(initial=0.0)), float(channel_s.max(initial=0.0))),
            violations=tuple(find_placement_violations(problem, placed, memory)),
        )


def evaluate(problem: PartitionProblem, chip_of: Ints) -> PlacementCost:
    """The costs of a placement; arrays derived from the problem are kept as long as it lives."""
    return MachineModel.of(problem).evaluate(chip_of)


def period(problem: PartitionProblem, chip_of: Ints) -> float:
    """The period in seconds; infinite where the placement breaks a rule."""
    evaluation = evaluate(problem, chip_of)
    return evaluation.period_s if evaluation.valid else float("inf")
