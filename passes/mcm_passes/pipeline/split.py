"""The pass `split`: one complete model per chip, and the wires between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.partition import CHIP, PARTITION_PROBLEM
from mcm_compiler.graph.states import STATES, States, mark_in_place
from mcm_compiler.ir.rewriting.device_stages import stage_on_host
from mcm_compiler.ir.rewriting.splitter import split
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_passes.mapping.problem.state_units import kept_states


@dataclass(frozen=True)
class Split(Pass):
    """Cuts the graph by the chip of each op; the model itself stays as it is."""

    name: ClassVar[str] = "split"
    summary: ClassVar[str] = "cut the graph into one ONNX model per chip"
    requires: ClassVar[tuple[AnyKey, ...]] = (CHIP,)
    uses: ClassVar[tuple[AnyKey, ...]] = (PARTITION_PROBLEM,)
    provides: ClassVar[tuple[AnyKey, ...]] = (CHIP_MODELS, WIRES)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Attaches `CHIP_MODELS` and `WIRES`.

        Raises:
            CompileError: MCM-P012 for values without a type that cross a boundary.
        """
        del context
        problem = PARTITION_PROBLEM.find(model)
        kept = kept_states(model, problem) if problem is not None else States(())
        if STATES.present(model):
            mark_in_place(model.graph, kept.pairs)
        chips, wires = split(model, CHIP, kept)
        for chip in chips:
            stage_on_host(chip.model)
        CHIP_MODELS.set(model, chips)
        WIRES.set(model, wires)
        return False
