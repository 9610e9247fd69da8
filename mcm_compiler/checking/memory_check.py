"""Check whether the memory plan of an output folder is sound, and the one its models call for."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from mcm_compiler.artifact import layout
from mcm_compiler.components.capabilities import lowered
from mcm_compiler.contracts.program import Buffer, ChipProgram, LoweredProgram, Queue
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE, ChipModel, Target, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.json_text import leaf_differences
from mcm_compiler.text.units import bytes_text

_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


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


def queue_fault(
    queue: Queue, chip: ChipProgram, program: LoweredProgram, models: Sequence[ChipModel]
) -> str | None:
    """Where a queue is too small, or a buffer is taken while a kernel has still to read it.

    Knows nothing of schedules: it takes the buffers in turn, once for each tensor, and compares the
    kernels that use them.

    Args:
        queue: the queue.
        chip: the program of its chip.
        program: the program of the package.
        models: the model of the chip, which has readers on the chip of what it sends.
    """
    count, transfers = len(queue.tensors), program.transfers
    chosen = [index for sent in queue.tensors for index in sent]
    exist = all(0 <= index < len(transfers) for index in chosen)
    if queue.buffers < 1 or not exist or not queue.tensors or not all(queue.tensors):
        return "a queue has no buffers, or transfers that do not exist"
    names = [transfers[sent[0]].tensor for sent in queue.tensors]
    size = max(transfers[index].size_bytes for index in chosen)
    planned = {b.name for b in chip.buffers if b.kind == queue.kind and b.size_bytes >= size}
    for slot in range(queue.buffers):
        if f"{names[0]}[{slot}]" not in planned:
            return f"buffer {slot} of the queue of {quote(names[0])} is not in the memory plan"
    uses = [_uses(queue.kind, sent, chip, program, models) for sent in queue.tensors]
    if not all(uses):
        return f"the queue of {quote(names[0])} has a tensor that no kernel of the chip uses"
    for turn in range(queue.buffers, queue.buffers + count):
        inference, taker = divmod(turn, count)
        earlier, before = divmod(turn - queue.buffers, count)
        if (earlier, max(uses[before])) >= (inference, min(uses[taker])):
            kernel = quote(chip.kernels[max(uses[before])].name)
            return (
                f"{quote(names[taker])} takes buffer {turn % queue.buffers} of the queue of "
                f"{quote(names[0])} before kernel {kernel} is done with {quote(names[before])}"
            )
    return None


def turn_faults(
    chip: ChipProgram, program: LoweredProgram, models: Sequence[ChipModel]
) -> Iterator[str]:
    """Stream buffers that are filled before their memory is free, or free before all is read.

    Knows nothing of the planner: it compares the kernels that read what has the memory before.
    Buffers that are taken all the time are left out.

    Args:
        chip: the program of a chip.
        program: the program of the package.
        models: the model of the chip.
    """
    transfers, end = program.transfers, len(chip.kernels) - 1
    reader = {index: at for at, kernel in enumerate(chip.kernels) for index in kernel.reads}
    inputs = {t.tensor: i for i, t in enumerate(transfers) if t.source == HOST}
    for buffer in chip.buffers:
        if buffer.kind != "stream" or (buffer.first, buffer.last) == (0, end):
            continue
        read = chip.kernels[buffer.last].reads if buffer.last <= end else ()
        fills, used = [i for i in read if transfers[i].source == OFF_PACKAGE], buffer.last
        if (index := inputs.get(buffer.name)) is not None:
            fills = [index]
            used = max(_uses("receive", (index,), chip, program, models), default=end)
        sound = used <= buffer.last
        sound &= sum(transfers[i].size_bytes for i in fills) <= buffer.size_bytes
        for index in fills:
            one, freed = transfers[index], reader.get(transfers[index].reuses, -1)
            if one.lag > 0 or (one.lag < 0 and one.reuses >= index):
                later = [b for b in chip.buffers if b.last > freed and _share_memory(b, buffer)]
                sound &= freed >= 0 == buffer.first and not later
            else:
                sound &= 0 < buffer.first <= freed + 1
        if not sound:
            yield f"stream buffer {quote(buffer.name)} is filled while its memory is taken"


def _share_memory(one: Buffer, other: Buffer) -> bool:
    ends = one.address + one.size_bytes, other.address + other.size_bytes
    return max(one.address, other.address) < min(ends)


def _uses(
    kind: str,
    sent: tuple[int, ...],
    chip: ChipProgram,
    program: LoweredProgram,
    models: Sequence[ChipModel],
) -> list[int]:
    """Kernels of a chip that read or write what is in a buffer, also through views."""
    inside = kind == "receive"
    transfers = [k.reads if inside else k.writes for k in chip.kernels]
    uses = [at for at, named in enumerate(transfers) if set(sent) <= set(named)]
    held = {program.transfers[sent[0]].tensor}
    kernel_of = {name: at for at, kernel in enumerate(chip.kernels) for name in kernel.nodes}
    for node in (node for model in models for node in model.model.graph):
        if held & {value.name for value in node.inputs if value is not None}:
            if node.op_type in _VIEWS:
                held |= {value.name or "" for value in node.outputs}
            elif node.name in kernel_of:
                uses.append(kernel_of[node.name])
    return uses


def check_memory(
    chips: Sequence[ChipModel],
    wires: Sequence[Wire],
    target: Target,
    program: LoweredProgram,
    mapped: Sequence[Any] = (),
) -> str:
    """Checks that no buffers overlap, that all lie in SRAM, and that lowering gives this program.

    Of a queue, each buffer has to be read to the end before the next tensor takes it, and stream
    buffers are filled once their memory is free.

    Returns:
        A summary.

    Raises:
        CompileError: MCM-V040 for two buffers that overlap while both are taken, MCM-V041 for
            one outside SRAM, MCM-V043 for shared memory that is taken too early. MCM-V042 where
            lowering the chips' models gives another program, MCM-T020 where the target does not
            lower, MCM-M021 for a fabric without a mapping.
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
        models = [model for model in chips if model.chip == chip.chip]
        faults += [
            Diagnostic("MCM-V043", problem, at=place)
            for queue in chip.queues
            if (problem := queue_fault(queue, chip, program, models)) is not None
        ]
        faults += [
            Diagnostic("MCM-V043", problem, at=place)
            for problem in turn_faults(chip, program, models)
        ]
    CompileError.raise_any(faults)
    if (made := lowered(target, chips, wires, mapped)) != program:
        stored, given = map(asdict, (program, made))
        place = next(leaf_differences("", stored, given, "lowering gives")).removeprefix(".")
        raise CompileError.of(
            "MCM-V042",
            f"lowering the chips' models does not give the program in the folder: {place}",
            at=layout.PROGRAM,
        )
    highest = max((chip.high_water_bytes for chip in program.chips), default=0)
    return f"no overlap, at most {bytes_text(highest)} on a chip"
