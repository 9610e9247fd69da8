"""The pass `emit`: writes the chips' models beside the final output folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.artifact.emit import write_chips
from mcm_compiler.artifact.mapping_files import write_mappings
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.fabrics.target import MAPPED_CHIPS, MapsChips
from mcm_compiler.contracts.partition import CHIP
from mcm_compiler.contracts.program import PROGRAM
from mcm_compiler.contracts.verification import EMITTED
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext


@dataclass(frozen=True)
class Emit(Pass):
    """Writes chip models, annotated model, target and program to the staging folder."""

    name: ClassVar[str] = "emit"
    summary: ClassVar[str] = "write the chips' models and the annotated model"
    requires: ClassVar[tuple[AnyKey, ...]] = (SOURCE, CHIP, CHIP_MODELS, WIRES)
    uses: ClassVar[tuple[AnyKey, ...]] = (PROGRAM, MAPPED_CHIPS)
    provides: ClassVar[tuple[AnyKey, ...]] = (EMITTED,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `EMITTED` to the names of the files, sorted."""
        folder = context.staging.path
        for stale in (*folder.glob("chip_*.onnx"), *folder.glob("chip_*.onnx.data")):
            stale.unlink()  # of a run before the graph changed, perhaps on more chips
        write_chips(
            folder,
            SOURCE.get(model),
            model,
            CHIP_MODELS.get(model),
            context.target,
            PROGRAM.find(model),
        )
        if isinstance(context.target, MapsChips):
            write_mappings(folder, MAPPED_CHIPS.find(model) or (), context.target)
        EMITTED.set(model, tuple(sorted(path.name for path in folder.iterdir())))
        return False
