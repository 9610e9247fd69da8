"""The pass `lower`: schedules, memory plans and transfers for every chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.capabilities import Capability, lowered
from mcm_compiler.contracts.chips import CHIP_MODELS, MAPPED_CHIPS, WIRES
from mcm_compiler.contracts.program import PROGRAM, LoweredProgram, MemoryOverflow
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.placements.side_by_side import fitting_sequences, most_served, wanted_sequences
from mcm_compiler.placements.steps_of_decoders import step_of_model
from mcm_compiler.text.units import bytes_text, count_text


@dataclass(frozen=True)
class Lower(Pass):
    """Lowers the chips' models to the target, and refuses what does not fit."""

    name: ClassVar[str] = "lower"
    summary: ClassVar[str] = "schedule ops, plan memory and transfers for each chip"
    requires: ClassVar[tuple[AnyKey, ...]] = (CHIP_MODELS, WIRES)
    uses: ClassVar[tuple[AnyKey, ...]] = (REPLICATION, MAPPED_CHIPS)
    provides: ClassVar[tuple[AnyKey, ...]] = (PROGRAM,)
    needs_target: ClassVar[tuple[Capability, ...]] = ("lowers",)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `PROGRAM`.

        Chips hold the states of as many sequences as the option `sequences` says. Without it, these
        are as many as the pipeline needs to be as fast as for independent inferences. There must be
        memory for them, and their steps must keep the limits of the option `serve`. MCM-P053 notes
        that they are too few to keep the chips busy.

        Raises:
            CompileError: MCM-P020, one diagnostic per chip whose memory plan does not fit,
                MCM-T020 for a target that does not lower, and MCM-M021 for a fabric that is not
                mapped.
        """
        target = context.target
        chips, wires = CHIP_MODELS.get(model), WIRES.get(model)
        mapped = MAPPED_CHIPS.find(model)
        program = lowered(target, chips, wires, mapped)
        if program.overflows:
            raise CompileError([_explain(o, target.name) for o in program.overflows])
        if program.sequences:
            side = REPLICATION.find(model) or Replication(1, 0)
            step = step_of_model(model)
            limit_s = step.limit_s(context.options.serve) if step is not None else inf
            needed = wanted_sequences(program, target, side, limit_s)

            def holding(sequences: int) -> LoweredProgram:
                more = [replace(chip, sequences=sequences) for chip in chips]
                return lowered(target, more, wires, mapped)

            if context.options.sequences is not None:
                pass
            elif target.limits.stream_bytes_per_s > 0.0:
                program = most_served(program, target, side, needed, holding)
            elif (held := min(needed, fitting_sequences(program, target))) > program.sequences:
                program = holding(held)
            if program.sequences < needed:
                context.report(_too_few(program.sequences, needed))
        PROGRAM.set(model, program)
        return False


def _too_few(held: int, needed: int) -> Diagnostic:
    return Diagnostic(
        "MCM-P053",
        f"{count_text(held, 'sequence')} in flight keep the chips busy for a part of the time; "
        f"{needed} would for all of it",
        at="states on their chips",
        hint=f"re-run `mcmc compile` with --sequences {needed}, which reserves memory for them",
    )


def _explain(overflow: MemoryOverflow, target: str) -> Diagnostic:
    largest = ", ".join(f"{quote(n)} {bytes_text(size)}" for n, size in overflow.largest)
    parts = (
        ("weights", overflow.weight_bytes),
        ("receive and send buffers", overflow.channel_bytes),
        ("activations", overflow.activation_bytes),
        ("states of sequences", overflow.state_bytes),
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
