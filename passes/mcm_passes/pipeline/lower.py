"""The pass `lower`: schedules, memory plans and transfers for every chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.capabilities import Capability, lowering_of
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.program import PROGRAM, MemoryOverflow
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.text.units import bytes_text


@dataclass(frozen=True)
class Lower(Pass):
    """Lowers the chips' models to the target, and refuses what does not fit."""

    name: ClassVar[str] = "lower"
    summary: ClassVar[str] = "schedule ops, plan memory and transfers for each chip"
    requires: ClassVar[tuple[AnyKey, ...]] = (CHIP_MODELS, WIRES)
    provides: ClassVar[tuple[AnyKey, ...]] = (PROGRAM,)
    needs_target: ClassVar[tuple[Capability, ...]] = ("lowers",)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `PROGRAM`.

        Raises:
            CompileError: MCM-P020, one diagnostic per chip whose memory plan does not fit, and
                MCM-T020 for a target that does not lower.
        """
        target = context.target
        program = lowering_of(target).lower(CHIP_MODELS.get(model), WIRES.get(model))
        if program.overflows:
            raise CompileError([_explain(o, target.name) for o in program.overflows])
        PROGRAM.set(model, program)
        return False


def _explain(overflow: MemoryOverflow, target: str) -> Diagnostic:
    largest = ", ".join(f"{quote(n)} {bytes_text(size)}" for n, size in overflow.largest)
    parts = (
        ("weights", overflow.weight_bytes),
        ("receive and send buffers", overflow.channel_bytes),
        ("activations", overflow.activation_bytes),
    )
    demand = ", ".join(f"{bytes_text(size)} of {what}" for what, size in parts if size)
    return Diagnostic(
        "MCM-P020",
        f"the memory plan of chip {overflow.chip} needs {bytes_text(overflow.demand_bytes)}"
        f"{f' ({demand})' if demand else ''}, "
        f"and that chip of {quote(target)} has {bytes_text(overflow.limit_bytes)}",
        at=f"largest buffers: {largest}",
        hint="; or ".join(lever.action for lever in overflow.levers)
        or "choose another partitioner, a smaller batch, or a target with more memory",
    )
