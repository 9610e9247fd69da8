"""Equal pipelines side by side, played together where they share channels of the package.

Pipelines that share nothing answer as often as one alone. Where all of them get at the host, or at
off-package memory, over one channel, they may hold each other up, and only a simulation of all of
them shows by how much.

A step of a sequence starts once the step before has ended, so that one sequence alone leaves most
of a pipeline idle. As many as steps are under way at once keep it as busy as independent inferences
do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from mcm_compiler.components.capabilities import simulator_of
from mcm_compiler.contracts.program import (
    ChipProgram,
    LoweredProgram,
    SimulationResult,
    Simulator,
    Transfer,
)
from mcm_compiler.contracts.replication import Replication
from mcm_compiler.contracts.target import Simulates, Target, machine_of
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.machines.machine import OFF_PACKAGE, Machine
from mcm_compiler.placements.steps_of_decoders import most_in_flight

MOST_TOGETHER = 200_000
"""Kernels and transfers of all pipelines that are played; of more, one pipeline is, if it can."""


def play_together(target: Target, pipelines: int) -> bool:
    """Return whether this many pipelines on a package have to be simulated together."""
    return pipelines > 1 and bool(machine_of(target).shared_channels)


def one_stands_for_all(
    target: Target, program: LoweredProgram, pipelines: int, chips_each: int
) -> bool:
    """Return whether only one of the pipelines that have to be simulated together is simulated."""
    count = len(program.transfers) + sum(len(chip.kernels) for chip in program.chips)
    many = chips_each == 1 and count * pipelines > MOST_TOGETHER
    return many and play_together(target, pipelines)


def simulate_pipelines(
    target: Target, program: LoweredProgram, inferences: int, pipelines: int, chips_each: int
) -> SimulationResult:
    """The simulation of one of equal pipelines that run side by side.

    Where they share channels all of them are played. Period and latency are then those of the
    whole: in each period every pipeline answers once. Chips, and channels of their own, are those
    of the first pipeline; a channel that is shared has the busy time and the bytes of all of them.
    Of very many kernels on pipelines of one chip, only the one is played that is served last: its
    transfers over a shared channel take as long as those of all of them.

    Args:
        target: the package.
        program: of one pipeline.
        inferences: of each pipeline that are played at least.
        pipelines: how many there are.
        chips_each: chips from one to the next.

    Raises:
        CompileError: MCM-T021 for a target without a simulator, and as `Simulator.run`.
    """
    simulator = simulator_of(target)
    if not play_together(target, pipelines):
        return simulator.run(program, inferences)
    if one_stands_for_all(target, program, pipelines, chips_each):
        return _served_last(simulator, program, inferences, pipelines, machine_of(target))
    together = side_by_side(program, pipelines, chips_each, machine_of(target))
    found = simulator.run(together, inferences)
    return replace(
        found,
        chips=tuple(chip for chip in found.chips if chip.chip < chips_each),
        links=tuple(
            link for link in found.links if max(link.source, link.destination) < chips_each
        ),
    )


def _served_last(
    simulator: Simulator, program: LoweredProgram, inferences: int, pipelines: int, machine: Machine
) -> SimulationResult:
    shared, once = set(machine.shared_channels), machine.reads_once

    def waits(transfer: Transfer) -> bool:
        crossed = machine.route(transfer.source, transfer.destination)
        return not shared.isdisjoint(crossed) and not (once and transfer.source == OFF_PACKAGE)

    transfers = tuple(
        replace(one, size_bytes=pipelines * one.size_bytes) if waits(one) else one
        for one in program.transfers
    )
    found = simulator.run(replace(program, transfers=transfers), inferences)
    own = {
        tuple(machine.channel_ends[c].tolist())
        for one in filter(waits, program.transfers)
        for c in machine.route(one.source, one.destination)
        if c not in shared
    }
    links = tuple(
        replace(
            link,
            busy_s=link.busy_s / pipelines,
            bytes_per_inference=link.bytes_per_inference // pipelines,
        )
        if (link.source, link.destination) in own
        else link
        for link in found.links
    )
    return replace(found, links=links)


def side_by_side(
    program: LoweredProgram, pipelines: int, chips_each: int, machine: Machine
) -> LoweredProgram:
    """One program of all pipelines: chip `r * chips_each + c` does what chip c of `program` does.

    Where they share the channel from off-package memory, weights cross it once for all of them.

    Args:
        program: of one pipeline.
        pipelines: how many there are.
        chips_each: chips from one to the next, at least those that `program` uses.
        machine: of all of them.
    """
    chips: list[ChipProgram] = []
    transfers: list[Transfer] = []
    reads_once = machine.reads_once
    for pipeline in range(pipelines):
        first_chip, first = pipeline * chips_each, len(transfers)
        for chip in program.chips:
            kernels = tuple(
                replace(
                    kernel,
                    reads=tuple(first + t for t in kernel.reads),
                    writes=tuple(first + t for t in kernel.writes),
                )
                for kernel in chip.kernels
            )
            queues = tuple(
                replace(q, tensors=tuple(tuple(first + t for t in sent) for sent in q.tensors))
                for q in chip.queues
            )
            moved = replace(chip, chip=first_chip + chip.chip, kernels=kernels, queues=queues)
            chips.append(moved)
        transfers += [
            replace(
                t,
                tensor=t.tensor if pipeline == 0 else f"{t.tensor} of pipeline {pipeline}",
                source=_moved(t.source, first_chip),
                destination=_moved(t.destination, first_chip),
                after=index
                if reads_once and pipeline and t.source == OFF_PACKAGE
                else _moved(t.after, first),
                reuses=_moved(t.reuses, first),
            )
            for index, t in enumerate(program.transfers)
        ]
    kernels = sum(len(chip.kernels) for chip in program.chips)
    start_s = program.start_s[:kernels] * pipelines + program.start_s[kernels:] * pipelines
    return replace(program, chips=tuple(chips), transfers=tuple(transfers), start_s=start_s)


def _moved(index: int, by: int) -> int:
    """A chip or a transfer of a later pipeline; places outside and none stay what they are."""
    return index if index < 0 else index + by


FEWER_STREAM = 0.85
"""Share of the sequences that fit which may be served faster: nearly full chips stream at worst."""

SLACK = 1e-9
"""Relative space for rounding where a latency is a whole number of periods."""


def needed_sequences(latency_s: float, period_s: float) -> int:
    """Sequences with which a pipeline answers as often as for independent inferences."""
    return max(math.ceil(latency_s / period_s * (1.0 - SLACK)), 1)


def fitting_sequences(program: LoweredProgram, target: Target) -> int:
    """Sequences whose states fit into the chips next to all else, at most `MOST_SEQUENCES`."""
    sram = target.limits.sram_bytes
    further = [
        max(sram[chip.chip] - chip.high_water_bytes, 0) // chip.state_bytes
        for chip in program.chips
        if chip.state_bytes
    ]
    return min([MOST_SEQUENCES, *(program.sequences + more for more in further)])


def most_served(
    program: LoweredProgram,
    target: Target,
    side: Replication,
    needed: int,
    holding: Callable[[int], LoweredProgram],
) -> LoweredProgram:
    """The program that completes steps most often, where chips stream weights.

    States of more sequences leave less memory for weights, of which more are streamed then.

    Args:
        program: with the fewest sequences.
        target: the package.
        side: replicas.
        needed: sequences that would keep the replicas busy.
        holding: lowers a program of N sequences.
    """
    least, most, programs = program.sequences, needed, {program.sequences: program}
    while least < most:
        count = (least + most + 1) // 2
        programs[count] = holding(count)
        least, most = (least, count - 1) if programs[count].overflows else (count, most)
    fewer = math.ceil(least * FEWER_STREAM)
    if fewer not in programs:
        programs[fewer] = holding(fewer)

    def period_s(count: int) -> float:
        one = programs[count]
        return simulate_pipelines(target, one, 1, side.replicas, side.chips_each).period_s

    tried = (least, fewer) if isinstance(target, Simulates) else (least,)
    return programs[min(tried, key=period_s)] if len(set(tried)) > 1 else programs[least]


def independent(target: Target, program: LoweredProgram, side: Replication) -> SimulationResult:
    """The simulation of a program as if its inferences had nothing to do with each other."""
    alone = replace(program, sequences=0, period_s=0.0, start_s=())
    return simulate_pipelines(target, alone, 1, side.replicas, side.chips_each)


def wanted_sequences(
    program: LoweredProgram, target: Target, side: Replication, limit_s: float
) -> int:
    """Sequences that a pipeline needs; those of the program where the target has no simulator.

    No more than end their steps within `limit_s` seconds, though one at least.
    """
    if not isinstance(target, Simulates):
        return program.sequences
    found = independent(target, program, side)
    # Lowering takes away waits for turns and buffers once steps are as good as independent.
    busy = max(one.busy_s for one in (*found.chips, *found.links))
    needed = needed_sequences(found.latency_s, busy if found.cycle_waits else found.period_s)
    return int(min(needed, most_in_flight(limit_s, found.period_s)))
