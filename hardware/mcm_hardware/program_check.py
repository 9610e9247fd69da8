"""Whether a lowered program makes sense: it may come from a file that somebody changed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.program import LoweredProgram, Transfer
from mcm_compiler.target import HOST
from mcm_compiler.units import bytes_text


def check_program(program: LoweredProgram, num_chips: int) -> None:
    """Refuses programs that cannot be played.

    Args:
        program: any program.
        num_chips: chips of the package.

    Raises:
        CompileError: MCM-T011 for each chip that does not fit; or MCM-T012 for each
            contradiction (indices and chips that do not exist, negative times and sizes); or
            MCM-T010 for each transfer that can never arrive.
    """
    faults = [
        Diagnostic(
            "MCM-T011",
            f"chip {o.chip} needs {bytes_text(o.demand_bytes)}, it has {bytes_text(o.limit_bytes)}",
            at=f"chip {o.chip}: {_largest(o.largest)}",
            hint="use more chips, allow sharding, or choose a target with more memory per chip",
        )
        for o in program.overflows
    ]
    if faults:
        raise CompileError(faults)
    faults = [
        Diagnostic(
            "MCM-T012",
            f"the lowered program contradicts itself: {problem}",
            at=place,
            hint="compile the model again",
        )
        for place, problem in _contradictions(program, num_chips)
    ]
    if faults:
        raise CompileError(faults)
    faults = [
        Diagnostic(
            "MCM-T010",
            "the program deadlocks: a transfer has no buffer to arrive in",
            at=f"transfer {index} of {quote(transfer.tensor)}",
            hint="compile the model again with channel_slots of at least 1",
        )
        for index, transfer in enumerate(program.transfers)
        if transfer.slots == 0
    ]
    if faults:
        raise CompileError(faults)


def _largest(buffers: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{quote(name)} {bytes_text(size)}" for name, size in buffers)


def _contradictions(program: LoweredProgram, num_chips: int) -> Iterator[tuple[str, str]]:
    indices = [chip.chip for chip in program.chips]
    if len(set(indices)) < len(indices) or any(not 0 <= c < num_chips for c in indices):
        yield "chips", f"chips must be distinct and below {num_chips}"
        return
    if not any(chip.kernels for chip in program.chips):
        yield "chips", "there is no kernel"
        return
    durations = (kernel.duration_s for chip in program.chips for kernel in chip.kernels)
    if not any(durations) and not any(t.size_bytes for t in program.transfers):
        yield "kernels", "nothing in it takes any time"
        return
    used = set(indices)
    for index, transfer in enumerate(program.transfers):
        problem = _transfer_problem(transfer, index, program.transfers, used)
        if problem:
            yield f"transfer {index} of {quote(transfer.tensor)}", problem
    writers: dict[int, str] = {}
    for chip in program.chips:
        for kernel in chip.kernels:
            place = f"kernel {quote(kernel.name)} of chip {chip.chip}"
            if not (math.isfinite(kernel.duration_s) and kernel.duration_s >= 0):
                yield place, f"it takes {kernel.duration_s} s"
            for index in (*kernel.reads, *kernel.writes):
                if not 0 <= index < len(program.transfers):
                    yield place, f"there is no transfer {index}"
                    return
            if any(program.transfers[i].destination != chip.chip for i in kernel.reads):
                yield place, "it reads a transfer to another chip"
            if any(program.transfers[i].source != chip.chip for i in kernel.writes):
                yield place, "it writes a transfer of another chip"
            for index in kernel.writes:
                if index in writers or program.transfers[index].after >= 0:
                    yield place, f"transfer {index} has a second source"
                writers[index] = kernel.name


def _transfer_problem(
    transfer: Transfer, index: int, transfers: tuple[Transfer, ...], used: set[int]
) -> str | None:
    ends = (transfer.source, transfer.destination)
    if any(end != HOST and end not in used for end in ends) or ends == (HOST, HOST):
        return "it has an end on no used chip"
    if HOST not in ends and transfer.destination <= transfer.source:
        return "it runs against the ring"
    if transfer.size_bytes < 0 or transfer.slots < 0:
        return "its size or its slots are negative"
    after = transfer.after
    if after >= len(transfers) or after < -1 or after == index:
        return f"there is no transfer {after} to pass on"
    if after >= 0 and transfers[after].destination != transfer.source:
        return "it passes on a transfer to another chip"
    return None
