"""The pass `simulate`: the target's judge runs the lowered program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.capabilities import Capability, simulator_of
from mcm_compiler.passes import AnyKey, Pass, PassContext
from mcm_compiler.program import PROGRAM
from mcm_compiler.replication import REPLICATION, Replication
from mcm_compiler.side_by_side import simulate_pipelines
from mcm_compiler.simulation import SIMULATION


@dataclass(frozen=True)
class Simulate(Pass):
    """Measures period, latency and load of the lowered program."""

    name: ClassVar[str] = "simulate"
    summary: ClassVar[str] = "run the lowered program in the target's simulator"
    requires: ClassVar[tuple[AnyKey, ...]] = (PROGRAM,)
    provides: ClassVar[tuple[AnyKey, ...]] = (SIMULATION,)
    needs_target: ClassVar[tuple[Capability, ...]] = ("simulates",)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `SIMULATION`.

        Raises:
            CompileError: MCM-T021 for a target without a simulator.
        """
        target = context.target
        replication = REPLICATION.find(model) or Replication(1, target.machine.num_devices)
        result = simulate_pipelines(
            simulator_of(target),
            target.machine,
            PROGRAM.get(model),
            context.options.inferences,
            replication.replicas,
            replication.chips_each,
        )
        SIMULATION.set(model, result)
        return False
