"""Check whether a lowered program makes sense: it may come from a file that somebody changed.

Compiled code indexes arrays with what stands in a program, so that nothing may pass here that
points past them, runs in circles, or asks for absurd amounts of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine, place_text, route_row
from mcm_compiler.text.units import bytes_text
from mcm_hardware.event_graph.steady_state import MAX_CYCLICITY

MAX_ACTIVITIES = 1 << 20
"""Kernels and hops of a program."""

MAX_REFERENCES = 1 << 22
"""Reads and writes of all kernels."""

MAX_STARTS = 1 << 26
"""Start times that are kept at once: 512 MiB."""

MIN_SECONDS, MAX_SECONDS = 1e-15, 1e6
"""A kernel takes either no time or this. Sums of times then lose nothing that matters."""

MAX_BYTES = 1 << 50
MAX_SLOTS = 1 << 20

ENGINES = ("array", "vector", "memory", "host", "none")

_FAULTS_SHOWN = 20


def check_program(program: LoweredProgram, machine: Machine) -> None:
    """Refuses programs that cannot be played.

    Args:
        program: any program.
        machine: what it is for.

    Raises:
        CompileError: MCM-T011 for each chip that does not fit, or MCM-T013 if the program is too
            large. Or MCM-T012 for contradictions: indices and chips that do not exist, numbers
            that make no sense, transfers that nobody can send.
    """
    faults = [
        Diagnostic(
            "MCM-T011",
            f"chip {o.chip} needs {bytes_text(o.demand_bytes)}, it has {bytes_text(o.limit_bytes)}",
            at=f"chip {o.chip}: {_largest(o.largest)}",
        )
        for o in program.overflows
    ]
    CompileError.raise_any(faults)
    _check_size(program, machine)
    faults = [
        Diagnostic("MCM-T012", f"the lowered program contradicts itself: {problem}", at=place)
        for place, problem in islice(_contradictions(program, machine), _FAULTS_SHOWN)
    ]
    CompileError.raise_any(faults)


def check_timeline(num_activities: int, inferences: int) -> None:
    """Refuses timelines that take too much memory.

    Args:
        num_activities: kernels and hops of an inference.
        inferences: how many are to be kept.

    Raises:
        CompileError: MCM-T013.
    """
    most = MAX_STARTS // num_activities
    if inferences > most:
        raise CompileError.of(
            "MCM-T013",
            f"{inferences} inferences of {num_activities} kernels and hops are too many for "
            "a timeline",
            hint=f"ask for at most {most}",
        )


def _check_size(program: LoweredProgram, machine: Machine) -> None:
    kernels = sum(len(chip.kernels) for chip in program.chips)
    hops = sum(_hops(transfer, machine) for transfer in program.transfers)
    references = sum(
        len(kernel.reads) + len(kernel.writes) for chip in program.chips for kernel in chip.kernels
    )
    slots = max((t.slots for t in program.transfers if t.slots <= MAX_SLOTS), default=0)
    queued = (queue.buffers for chip in program.chips for queue in chip.queues)
    slots = max(slots, program.sequences, *(count for count in queued if count <= MAX_SLOTS))
    references += sum(
        max(map(len, queue.tensors), default=0) * sum(map(len, queue.tensors))
        for chip in program.chips
        for queue in chip.queues
    )
    if program.sequences:
        outputs = sum(transfer.destination == HOST for transfer in program.transfers)
        inputs = sum(transfer.source == HOST for transfer in program.transfers)
        references += inputs * max(outputs, len(program.chips))
    rounds = 0.0
    if program.period_s > 0 and all(0 <= start < math.inf for start in program.start_s):
        rounds = min(max(program.start_s, default=0.0) / program.period_s, MAX_SLOTS)
    starts = math.ceil((kernels + hops) * (slots + MAX_CYCLICITY + 1 + rounds))
    for count, limit, what in (
        (kernels + hops, MAX_ACTIVITIES, "kernels and hops"),
        (references, MAX_REFERENCES, "reads and writes"),
        (starts, MAX_STARTS, f"start times of {slots + int(rounds)} inferences in flight"),
    ):
        if count > limit:
            raise CompileError.of(
                "MCM-T013",
                f"the lowered program is too large to simulate: {count} {what}, "
                f"at most {limit} are possible",
            )


def _hops(transfer: Transfer, machine: Machine) -> int:
    """Channels that a transfer crosses; 0 where there is no way, which is looked at later."""
    try:
        row = route_row(machine, transfer.source, transfer.destination)
    except ValueError:
        return 0
    return int(machine.routes.end[row] - machine.routes.begin[row])


def _largest(buffers: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{quote(name)} {bytes_text(size)}" for name, size in buffers)


def _contradictions(program: LoweredProgram, machine: Machine) -> Iterator[tuple[str, str]]:
    """`(place, problem)` for what is wrong; what later checks rely on ends the list."""
    indices = [chip.chip for chip in program.chips]
    in_order = all(a < b for a, b in pairwise(indices))
    if not in_order or any(not 0 <= c < machine.num_devices for c in indices):
        yield "chips", f"chips must ascend and lie below {machine.num_devices}"
        return
    if not any(chip.kernels for chip in program.chips):
        yield "chips", "there is no kernel"
        return
    transfers = program.transfers
    broken = False
    for chip in program.chips:
        for place, problem in _chip_problems(chip, len(transfers), machine):
            broken = True
            yield place, problem
    used = set(indices)
    for index, transfer in enumerate(transfers):
        problem = _transfer_problem(transfer, index, transfers, used, machine)
        if problem:
            broken = True
            yield _transfer_place(index, transfer), problem
    if broken:
        return
    yield from _queue_problems(program)
    yield from _circles(transfers)
    yield from _end_problems(program)
    durations = (kernel.duration_s for chip in program.chips for kernel in chip.kernels)
    if not any(durations) and not any(t.size_bytes for t in transfers):
        yield "kernels", "nothing in it takes any time"


def _chip_problems(
    chip: ChipProgram, num_transfers: int, machine: Machine
) -> Iterator[tuple[str, str]]:
    sram = int(machine.memory_bytes[chip.chip])
    if not 0 <= chip.high_water_bytes <= sram:
        yield f"chip {chip.chip}", f"its plan uses {chip.high_water_bytes} of {sram} bytes of SRAM"
    for position, kernel in enumerate(chip.kernels):
        problem = _kernel_problem(kernel, num_transfers)
        if not problem and kernel.latency_s > 0 and position + 1 < len(chip.kernels):
            problem = "its results are there later, and another kernel comes behind it"
        if problem:
            yield f"kernel {quote(kernel.name)} of chip {chip.chip}", problem


def _kernel_problem(kernel: Kernel, num_transfers: int) -> str | None:
    if kernel.duration_s != 0 and not MIN_SECONDS <= kernel.duration_s <= MAX_SECONDS:
        return f"it takes {kernel.duration_s} s"
    if not 0 <= kernel.launch_s <= kernel.duration_s:
        return f"its launch takes {kernel.launch_s} s of {kernel.duration_s} s"
    if not 0 <= kernel.latency_s <= MAX_SECONDS:
        return f"its results are there {kernel.latency_s} s later"
    if kernel.engine not in ENGINES:
        return f"there is no engine {quote(kernel.engine)}"
    for index in (*kernel.reads, *kernel.writes):
        if not 0 <= index < num_transfers:
            return f"there is no transfer {index}"
    return None


def _transfer_problem(
    transfer: Transfer, index: int, transfers: Sequence[Transfer], used: set[int], machine: Machine
) -> str | None:
    source, destination = transfer.source, transfer.destination
    if source not in used and source not in {HOST, OFF_PACKAGE}:
        return f"it comes from chip {source}, which is not used"
    if destination not in used and not (destination == HOST and source >= 0):
        return f"it goes to {destination}, which is no used chip"
    if source == OFF_PACKAGE and not machine.streams:
        return "it comes from off-package memory, which the package does not have"
    if not _hops(transfer, machine):
        ends = f"{place_text(source, 'chip')} to {place_text(destination, 'chip')}"
        return f"no route leads from {ends}"
    if not 0 <= transfer.size_bytes <= MAX_BYTES:
        return f"its size is {transfer.size_bytes} bytes"
    if not 0 <= transfer.slots <= MAX_SLOTS:
        return f"it has {transfer.slots} buffers"
    return _after_problem(transfer, index, transfers, machine) or _reuse_problem(
        transfer, transfers
    )


def _after_problem(
    transfer: Transfer, index: int, transfers: Sequence[Transfer], machine: Machine
) -> str | None:
    after = transfer.after
    if not -1 <= after < len(transfers) or after == index:
        return f"there is no transfer {after} to pass on"
    if after >= 0 and transfer.source == transfers[after].source == OFF_PACKAGE:
        first = machine.route(OFF_PACKAGE, transfer.destination)[0]
        alike = transfer.size_bytes == transfers[after].size_bytes
        if transfers[after].after >= 0 or not alike or first not in machine.shared_channels:
            return f"it cannot share the read of transfer {after}"
        return None
    if after >= 0 and (transfer.source < 0 or transfers[after].destination != transfer.source):
        return "it passes on a transfer to another chip"
    if after >= 0 and transfers[after].source == OFF_PACKAGE:
        return f"it passes on the streamed weights of transfer {after}"
    return None


def _circles(transfers: Sequence[Transfer]) -> Iterator[tuple[str, str]]:
    """Transfers that pass on each other all around, one of each circle."""
    seen_from = [-1] * len(transfers)
    for index in range(len(transfers)):
        at = index
        while at >= 0 and seen_from[at] < 0:
            seen_from[at] = index
            at = transfers[at].after
        if at >= 0 and seen_from[at] == index:
            yield _transfer_place(at, transfers[at]), "it passes on what it brings, in a circle"


def _queue_problems(program: LoweredProgram) -> Iterator[tuple[str, str]]:
    """Contradictions of buffers that tensors share."""
    transfers, taken = program.transfers, set[tuple[str, int]]()
    for chip in program.chips:
        for number, queue in enumerate(chip.queues):
            place = f"queue {number} of chip {chip.chip}"
            if not 1 <= queue.buffers <= MAX_SLOTS or not all(queue.tensors):
                yield place, f"it has {queue.buffers} buffers, or nothing in them"
            for index in (index for sent in queue.tensors for index in sent):
                if not 0 <= index < len(transfers):
                    yield place, f"there is no transfer {index}"
                    continue
                one = transfers[index]
                receives = one.destination == chip.chip and one.source != OFF_PACKAGE
                if not (receives if queue.kind == "receive" else one.source == chip.chip):
                    yield place, f"transfer {index} has no such buffer there"
                if (queue.kind, index) in taken:
                    yield place, f"transfer {index} is in two queues"
                taken.add((queue.kind, index))
            if queue.kind == "receive" and any(len(sent) != 1 for sent in queue.tensors):
                yield place, "two transfers bring one tensor"


def _reuse_problem(transfer: Transfer, transfers: Sequence[Transfer]) -> str | None:
    reuses = transfer.reuses
    if not -1 <= reuses < len(transfers):
        return f"there is no transfer {reuses} whose buffer it could reuse"
    if not -1 <= transfer.lag <= 1:
        return f"it reuses a buffer of {transfer.lag} inferences before"
    if reuses < 0:
        return None
    if transfer.source not in (OFF_PACKAGE, HOST):
        return "it reuses a buffer, and brings neither streamed weights nor an input"
    if transfers[reuses].destination != transfer.destination:
        return "it reuses a buffer of another chip"
    if transfers[reuses].reuses < 0:
        return f"it reuses the buffer of transfer {reuses}, which does not wait for that"
    return None


def _end_problems(program: LoweredProgram) -> Iterator[tuple[str, str]]:
    """Contradictions between kernels and transfers that exist."""
    transfers = program.transfers
    arrives: dict[tuple[str, int], int] = {}
    for index, transfer in enumerate(transfers):
        first = arrives.setdefault((transfer.tensor, transfer.destination), index)
        if first != index and transfer.source != OFF_PACKAGE:
            yield _transfer_place(index, transfer), f"transfer {first} brings the tensor already"
    sent: set[int] = set()
    for chip in program.chips:
        for kernel in chip.kernels:
            place = f"kernel {quote(kernel.name)} of chip {chip.chip}"
            if any(transfers[i].destination != chip.chip for i in kernel.reads):
                yield place, "it reads a transfer to another chip"
            for index in kernel.writes:
                if transfers[index].source != chip.chip:
                    yield place, "it writes a transfer of another chip"
                elif index in sent or transfers[index].after >= 0:
                    yield place, f"transfer {index} has a second source"
                sent.add(index)


def _transfer_place(index: int, transfer: Transfer) -> str:
    return f"transfer {index} of {quote(transfer.tensor)}"
