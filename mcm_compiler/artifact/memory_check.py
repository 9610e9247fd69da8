"""Whether the memory plan of an output folder is sound, and the one its models call for."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.program import Buffer, LoweredProgram
from mcm_compiler.target import ChipModel, Target, Wire
from mcm_compiler.units import bytes_text


def check_memory(
    chips: Sequence[ChipModel], wires: Sequence[Wire], target: Target, program: LoweredProgram
) -> str:
    """Checks that no buffers overlap, that all lie in SRAM, and that lowering gives this program.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-V040 for two buffers that overlap while both are taken, MCM-V041 for
            one outside SRAM, MCM-V042 where lowering the chips' models gives another program.
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
    if target.lower(chips, wires) != program:
        raise CompileError(
            Diagnostic(
                "MCM-V042",
                "lowering the chips' models does not give the program in the folder",
                hint="the program or the target was changed, or made by another release",
            )
        )
    highest = max((chip.high_water_bytes for chip in program.chips), default=0)
    return f"no overlap, at most {bytes_text(highest)} on a chip"


def overlapping_buffers(buffers: Sequence[Buffer]) -> list[tuple[Buffer, Buffer]]:
    """Pairs of buffers that share an address while both are taken; at most one per buffer.

    Knows nothing of the allocator: it sweeps over time and keeps the live buffers sorted by
    address, in which order only neighbours can overlap as long as no pair did before.
    """
    events: list[tuple[int, int, int]] = []
    for index, buffer in enumerate(buffers):
        if buffer.size_bytes > 0:
            events.append((buffer.first, 1, index))
            events.append((buffer.last + 1, 0, index))
    events.sort()
    live: list[tuple[int, int]] = []
    found: list[tuple[Buffer, Buffer]] = []
    for _time, begins, index in events:
        buffer = buffers[index]
        key = (buffer.address, index)
        at = bisect.bisect_left(live, key)
        if not begins:
            if at < len(live) and live[at] == key:
                del live[at]
            continue
        below = buffers[live[at - 1][1]] if at else None
        above = buffers[live[at][1]] if at < len(live) else None
        if below is not None and below.address + below.size_bytes > buffer.address:
            found.append((below, buffer))
        elif above is not None and buffer.address + buffer.size_bytes > above.address:
            found.append((buffer, above))
        else:
            live.insert(at, key)
    return found
