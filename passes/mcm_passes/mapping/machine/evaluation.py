"""The analytic model: costs of a placement, in microseconds instead of a simulation.

Devices and channels are resources that overlap; the busiest sets the period (MCM, section 5.1,
counts chips only; channels are our addition). Everything that legalisation adds is charged: copies
of units on every device that reads them, relays on the devices between, and their memory; and the
copies of views that lowering makes. A ring is a machine like all others, with rules of its own.
"""

from __future__ import annotations

import weakref

import numpy as np

from mcm_compiler.contracts.mapping import Evaluation
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.machines.machine import Machine
from mcm_compiler.placements.compiled_rules import copies_of
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_passes.mapping.loads.device_memory import device_memory
from mcm_passes.mapping.loads.problem_arrays import Measured, no_loads, problem_arrays
from mcm_passes.mapping.machine.load_kernels import count_loads, on_devices, route_arrays

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

    def evaluate(self, chip_of: Ints) -> Evaluation:
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
        return Evaluation(
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


def evaluate(problem: PartitionProblem, chip_of: Ints) -> Evaluation:
    """The costs of a placement; arrays derived from the problem are kept as long as it lives."""
    return MachineModel.of(problem).evaluate(chip_of)


def period(problem: PartitionProblem, chip_of: Ints) -> float:
    """The period in seconds; infinite where the placement breaks a rule."""
    evaluation = evaluate(problem, chip_of)
    return evaluation.period_s if evaluation.valid else float("inf")
