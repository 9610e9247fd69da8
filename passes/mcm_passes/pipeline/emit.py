"""The pass `emit`: writes the chips' models next to the final output folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.additions import addition_of
from mcm_compiler.artifact.emit import write_chips
from mcm_compiler.contracts.chips import CHIP_MODELS, MAPPED_CHIPS, WIRES
from mcm_compiler.contracts.partition import CHIP
from mcm_compiler.contracts.program import PROGRAM
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS
from mcm_compiler.contracts.verification import EMITTED
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.rounds import class_names
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.text.units import count_text


@dataclass(frozen=True)
class Emit(Pass):
    """Writes chip models, annotated model, target and program to the staging folder."""

    name: ClassVar[str] = "emit"
    summary: ClassVar[str] = "write the chips' models and the annotated model"
    requires: ClassVar[tuple[AnyKey, ...]] = (SOURCE, CHIP, CHIP_MODELS, WIRES)
    uses: ClassVar[tuple[AnyKey, ...]] = (PROGRAM, MAPPED_CHIPS, REPLICATION)
    provides: ClassVar[tuple[AnyKey, ...]] = (EMITTED,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `EMITTED` to the names of the files, sorted.

        Raises:
            CompileError: MCM-X013 where earlier passes took outputs away or added inputs.
        """
        side = REPLICATION.find(model) or Replication(1, 0)
        _check_ends(SOURCE.get(model).original, model, side.round)
        folder = context.staging.path
        for stale in (*folder.glob("chip_*.onnx"), *folder.glob("*_*.onnx.data")):
            stale.unlink()  # of a run before the graph changed, perhaps on more chips
        write_chips(
            folder,
            SOURCE.get(model),
            model,
            CHIP_MODELS.get(model),
            context.target,
            PROGRAM.find(model),
        )
        if (found := addition_of(context.target)) is not None:
            found[1].write(folder, MAPPED_CHIPS.find(model) or (), context.target)
        EMITTED.set(model, tuple(sorted(path.name for path in folder.iterdir())))
        return False


def _check_ends(original: ir.Model, model: ir.Model, classes: int) -> None:
    """Checks that a compiled model still takes and gives what the original does.

    Raises:
        CompileError: MCM-X013.
    """
    given = {value.name for value in model.graph.outputs}
    parts = OUTPUT_PARTS.find(model) or {}
    given |= {part.graph_output for part in parts.values()}
    taken = {n for v in original.graph.inputs for n in class_names(v.name or "", classes)}
    lost = [
        value
        for value in original.graph.outputs
        if not given.issuperset(class_names(value.name or "", classes))
    ]
    taken |= {name for name, part in parts.items() if part.output in taken}
    added = [value for value in free_inputs(model) if value.name not in taken]
    told = [("no longer makes", "output", lost), ("takes", "input", added)]
    faults = [
        Diagnostic(
            "MCM-X013",
            f"after the passes the model {what} {quote(values[0].name or '')}"
            + (f" and {count_text(len(values) - 1, 'other')}" if len(values) > 1 else "")
            + ("" if values is lost else ", which the file does not take"),
            at=f"{kind} {quote(values[0].name or '')}",
        )
        for what, kind, values in told
        if values
    ]
    CompileError.raise_any(faults)
