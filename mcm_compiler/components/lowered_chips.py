"""Lowering the chips of any target: those that are fabrics as they were mapped."""

from __future__ import annotations

from collections.abc import Sequence

from mcm_compiler.components.capabilities import lowering_of
from mcm_compiler.contracts.fabrics.target import MappedChip, MapsChips
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import ChipModel, Target, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote


def lowered(
    target: Target,
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    mapped: Sequence[MappedChip] | None,
) -> LoweredProgram:
    """The program of the chips.

    Args:
        target: the package.
        chips: one model per used chip, ascending.
        wires: tensors between chips and the host.
        mapped: the mapping of each chip, where chips are fabrics.

    Raises:
        CompileError: MCM-T020 where the target does not lower, MCM-M021 for a fabric without a
            mapping.
    """
    if not isinstance(target, MapsChips):
        return lowering_of(target).lower(chips, wires)
    known = {one.chip for one in mapped or ()}
    if missing := [chip.chip for chip in chips if chip.chip not in known]:
        raise CompileError(
            Diagnostic(
                "MCM-M021",
                f"the chips of {quote(target.name)} are fabrics, and chip {missing[0]} is not "
                "mapped",
                at=f"chip {missing[0]}",
                hint="put map_chips between split and lower in the pipeline",
            )
        )
    return target.lower_mapped(chips, wires, mapped or ())
