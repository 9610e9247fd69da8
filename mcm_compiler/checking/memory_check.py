"""Whether the memory plan of an output folder is sound, and the one its models call for."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from mcm_compiler.artifact import layout
from mcm_compiler.components.capabilities import lowered
from mcm_compiler.contracts.fabrics.target import MappedChip
from mcm_compiler.contracts.program import Buffer, LoweredProgram
from mcm_compiler.contracts.target import ChipModel, Target, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import bytes_text


def first_difference(lowered: LoweredProgram, stored: LoweredProgram) -> tuple[str, str] | None:
    """The first place where two programs differ, and how; None where they are equal.

    Args:
        lowered: what lowering gives.
        stored: what a folder holds.
    """
    ours = {chip.chip: chip for chip in lowered.chips}
    theirs = {chip.chip: chip for chip in stored.chips}
    for chip in sorted({*ours, *theirs}):
        place = f"chip {chip}"
        if chip not in theirs:
            return place, "it is missing"
        if chip not in ours:
            return place, "lowering gives no such chip"
        left, right = ours[chip], theirs[chip]
        found = (
            _in_rows(f"{place}, kernel", left.kernels, right.kernels)
            or _in_rows(f"{place}, buffer", left.buffers, right.buffers)
            or _in_record(place, left, right)
        )
        if found is not None:
            return found
    return (
        _in_rows("transfer", lowered.transfers, stored.transfers)
        or _in_rows("overflow", lowered.overflows, stored.overflows)
        or _in_record("program", lowered, stored)
    )


def _in_rows(place: str, lowered: Sequence[Any], stored: Sequence[Any]) -> tuple[str, str] | None:
    for index, (left, right) in enumerate(zip(lowered, stored, strict=False)):
        if (found := _in_record(f"{place} {index}", left, right)) is not None:
            return found
    if len(lowered) != len(stored):
        return f"{place}s", f"there are {len(stored)}, lowering gives {len(lowered)}"
    return None


def _in_record(place: str, lowered: Any, stored: Any) -> tuple[str, str] | None:
    for entry in fields(lowered):
        ours, theirs = getattr(lowered, entry.name), getattr(stored, entry.name)
        if ours != theirs and not _holds_records(ours):
            name = entry.name
            if isinstance(ours, tuple) and isinstance(theirs, tuple) and len(ours) == len(theirs):
                pairs = cast("Iterable[tuple[Any, Any]]", zip(ours, theirs, strict=True))
                at, (ours, theirs) = next(p for p in enumerate(pairs) if p[1][0] != p[1][1])
                name = f"{name}[{at}]"
            return place, f"{name} is {_short(theirs)}, lowering gives {_short(ours)}"
    return None


def _holds_records(value: Any) -> bool:
    """Whether a field holds further records, which are compared one by one."""
    items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    return any(is_dataclass(item) for item in items)


def _short(value: Any) -> str:
    return quote(value if isinstance(value, str) else repr(value))


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
            raise CompileError.of("MCM-V042", f"the target has no {place}")
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
    CompileError.raise_any(faults)
    if (found := first_difference(lowered(target, chips, wires, mapped), program)) is not None:
        place, difference = found
        raise CompileError.of(
            "MCM-V042",
            f"lowering the chips' models does not give the program in the folder: {difference}",
            at=f"{layout.PROGRAM}: {place}",
        )
    highest = max((chip.high_water_bytes for chip in program.chips), default=0)
    return f"no overlap, at most {bytes_text(highest)} on a chip"
