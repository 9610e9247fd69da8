"""The pass `simulate`: the target's simulator plays the lowered program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.capabilities import Capability
from mcm_compiler.components.cost_choice import refuse_refuted_times
from mcm_compiler.contracts.partition import PARTITION
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.placements.side_by_side import simulate_pipelines


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
            CompileError: MCM-T021 for a target without a simulator, MCM-C001 for a chosen cost
                model that the bound and the simulator contradict.
        """
        program, inferences = PROGRAM.get(model), context.options.inferences
        side = REPLICATION.find(model) or Replication(1, 0)
        result = simulate_pipelines(
            context.target, program, inferences, side.replicas, side.chips_each
        )
        partition = PARTITION.find(model)
        if partition is not None:
            refuse_refuted_times(context.target, partition.bound.seconds, result.period_s)
        SIMULATION.set(model, result)
        return False
