"""Whether the memory plan of an output folder is sound, and the one its models call for."""

from __future__ import annotations

from collections.abc import Sequence

from mcm_compiler.artifact import layout
from mcm_compiler.checking.buffer_overlap import overlapping_buffers
from mcm_compiler.checking.program_difference import first_difference
from mcm_compiler.components.lowered_chips import lowered
from mcm_compiler.contracts.fabrics.target import MappedChip
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import ChipModel, Target, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import bytes_text


def check_memory(
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    target: Target,
    program: LoweredProgram,
    mapped: Sequence[MappedChip] = (),
) -> str:
    """Checks that no buffers overlap, that all lie in SRAM, and that lowering gives this program.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-V040 for two buffers that overlap while both are taken, MCM-V041 for
            one outside SRAM, MCM-V042 where lowering the chips' models gives another program,
            MCM-T020 where the target does not lower, MCM-M021 for a fabric without a mapping.
    """
    faults: list[Diagnostic] = []
    limits = target.limits.sram_bytes
    for chip in program.chips:
        place = f"chip {chip.chip}"
        if not 0 <= chip.chip < len(limits):
            raise CompileError(Diagnostic("MCM-V042", f"the target has no {place}"))
        limit = limits[chip.chip]
        faults += [
            Diagnostic(
                "MCM-V041",
                f"buffer {quote(b.name)} ends at {b.address + b.size_bytes} of {limit} bytes",
                at=place,
            )
            for b in chip.buffers
            if b.address < 0 or b.address + b.size_bytes > limit
        ]
        faults += [
            Diagnostic("MCM-V040", f"buffers {quote(a.name)} and {quote(b.name)} overlap", at=place)
            for a, b in overlapping_buffers(chip.buffers)
        ]
    if faults:
        raise CompileError(faults)
    if (found := first_difference(lowered(target, chips, wires, mapped), program)) is not None:
        place, difference = found
        raise CompileError(
            Diagnostic(
                "MCM-V042",
                f"lowering the chips' models does not give the program in the folder: {difference}",
                at=f"{layout.PROGRAM}: {place}",
                hint="the program or the target was changed, or made by another release",
            )
        )
    highest = max((chip.high_water_bytes for chip in program.chips), default=0)
    return f"no overlap, at most {bytes_text(highest)} on a chip"
