"""The pass `map_chips`: places and routes the units of each chip that is a fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.additions import addition_of
from mcm_compiler.contracts.chips import CHIP_MODELS, MAPPED_CHIPS, WIRES
from mcm_compiler.contracts.target import LowersMapped
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext


@dataclass(frozen=True)
class MapChips(Pass):
    """Lays out the model of each used chip, where chips are fabrics; others it leaves alone."""

    name: ClassVar[str] = "map_chips"
    summary: ClassVar[str] = "place and route the units of each chip that is a fabric"
    requires: ClassVar[tuple[AnyKey, ...]] = (CHIP_MODELS, WIRES)
    provides: ClassVar[tuple[AnyKey, ...]] = (MAPPED_CHIPS,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `MAPPED_CHIPS`; empty where chips are no fabrics.

        Chips whose problems are equal are mapped once.

        Raises:
            CompileError: MCM-M020 where a mapper or a mapping model is asked for, and chips are no
                fabrics. MCM-M001 to MCM-M005 for subgraphs that do not fit. MCM-M022 and MCM-M023
                for components that break their contracts, MCM-X007 for those that fail; MCM-M029
                for a chip that takes too long to be measured; MCM-U001 to MCM-U003 for names of
                components.
        """
        target, options = context.target, context.options
        named = options.mapper is not None or options.mapping_model is not None
        if named and not isinstance(target, LowersMapped):
            raise CompileError(_no_fabrics(target.name, options))
        found = addition_of(target)
        asked = CHIP_MODELS.get(model), target, options, context.progress
        MAPPED_CHIPS.set(model, () if found is None else found[1].search(*asked))
        return False


def _no_fabrics(target: str, options: CompileOptions) -> Diagnostic:
    given = {"--mapper": options.mapper, "--mapping-model": options.mapping_model}
    named = " and ".join(name for name, value in given.items() if value is not None)
    return Diagnostic(
        "MCM-M020",
        f"{named} is given, and the chips of {quote(target)} are no fabrics",
        at=f"target {quote(target)}",
    )
