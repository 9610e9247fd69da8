"""What placements cost on machines: devices, and channels along routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.mapping import Violation
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.machine_rules import find_placement_violations
from mcm_passes.mapping.loads.evaluation import PlacementCost, PlacementModel
from mcm_passes.mapping.loads.problem_arrays import Measured
from mcm_passes.mapping.machine.load_kernels import loads_on_machine, route_arrays


@dataclass(frozen=True, eq=False)
class MachineEvaluation(PlacementCost):
    """What one placement costs per inference, on L channels as well.

    Attributes:
        channel_busy_s: `[L]`, what crosses each channel, streamed weights included.
    """

    channel_busy_s: Floats


class MachineModel(PlacementModel):
    """A problem prepared for many evaluations.

    Args:
        problem: one with a machine.

    Raises:
        ValueError: if it has none.
    """

    kind = MachineEvaluation

    def __init__(self, problem: PartitionProblem) -> None:
        if problem.on_ring:
            raise ValueError("the problem is placed on a ring")
        super().__init__(problem)
        self._machine = problem.machine
        self.routes = route_arrays(problem)

    def loads(self, chip_of: Ints) -> Measured:
        """Loads of all resources; `chip_of[N]` is in range."""
        return loads_on_machine(self.arrays, self.routes, chip_of)

    def channels(self, found: Measured, streamed: Longs) -> dict[str, Floats]:
        """As `PlacementModel.channels`."""
        machine, crossed = self._machine, found.crossed.astype(np.float64)
        first = machine.num_devices * (machine.num_devices + 2)
        for c in np.flatnonzero(streamed).tolist():
            np.add.at(crossed, machine.routes.row(first + c), float(streamed[c]))
        return {"channel_busy_s": crossed / machine.channel_bytes_per_s}

    def broken(self, chip_of: Ints, memory: Longs) -> Sequence[Violation]:
        """As `find_placement_violations`."""
        return find_placement_violations(self._problem, chip_of, memory)
