"""Start times of a lowered program: found where they make it faster, checked where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import Machine
from mcm_hardware.event_graph.cycle_ratio import maximum_cycle_ratio, performance
from mcm_hardware.event_graph.graph import EventGraph, event_graph
from mcm_hardware.event_graph.max_plus import busy_per_resource
from mcm_hardware.event_graph.program_arrays import ChannelArrays, channel_arrays, program_arrays
from mcm_hardware.event_graph.service_order import Waits
from mcm_hardware.event_graph.steady_schedule import BufferSizes, broken_wait, steady_schedule
from mcm_hardware.event_graph.wait_cycle import activity_name
from mcm_hardware.memory.queue_plan import BufferTimes

ROUNDING = 1e-9
"""Share of a period by which starts are further apart, so that sums of rounded times settle."""


def with_start_times(
    program: LoweredProgram, machine: Machine, size_bytes: Sequence[int], sent: Sequence[int]
) -> LoweredProgram:
    """The program with start times and more buffers where it is faster so, or else itself.

    Args:
        program: one that fits, without start times.
        machine: what it is for.
        size_bytes: of a buffer for each transfer.
        sent: as in `BufferSizes`.
    """
    arrays, channels = program_arrays(program), channel_arrays(machine)
    graph = event_graph(arrays, channels)
    speed = performance(graph)
    if not speed.runs:
        return program
    free_bytes = np.array(machine.memory_bytes, np.int64)
    for chip in program.chips:
        free_bytes[chip.chip] -= chip.high_water_bytes
    sizes = BufferSizes(free_bytes, np.array(size_bytes, np.int64), np.array(sent, np.int64))
    found = steady_schedule(arrays, channels, graph, speed.period_s, sizes)
    if not len(found.start_s):
        return program
    slots = zip(program.transfers, found.slots.tolist(), strict=True)
    return replace(
        program,
        transfers=tuple(t if t.slots == count else replace(t, slots=count) for t, count in slots),
        period_s=float(found.period_s),
        start_s=tuple(found.start_s.tolist()),
    )


def buffer_times(program: LoweredProgram, machine: Machine) -> BufferTimes | None:
    """When buffers are taken and free if none is ever short; None where the program deadlocks.

    Starts are as early as data and engines let them be, once a period; channels have no order.
    """
    arrays, channels = program_arrays(program), channel_arrays(machine)
    graph = event_graph(arrays, channels)
    activities = np.arange(len(graph.busy_s))
    if len(graph.order) < len(activities):
        return None
    kept = np.flatnonzero(~graph.waits.for_buffer[: graph.wait_ptr[-1]])
    rows = np.repeat(activities, np.diff(graph.wait_ptr))[kept]
    source, seconds, back, for_buffer = graph.waits
    waits = Waits(source[kept], seconds[kept], back[kept], for_buffer[kept])
    ptr = np.searchsorted(rows, np.arange(len(activities) + 1))
    kernels = int(graph.hop_ptr[0])
    before = np.where(activities < kernels, graph.before, activities)
    lag = np.where(activities < kernels, graph.before_lag, 1)
    free = graph._replace(waits=waits, wait_ptr=ptr, before=before, before_lag=lag)
    period_s = maximum_cycle_ratio(free, busy_per_resource(free))[0] * (1.0 + ROUNDING)
    waiter = np.concatenate([rows, activities])
    source = np.concatenate([waits.source, before])
    seconds = np.concatenate([waits.seconds, graph.busy_s[before]])
    seconds -= np.concatenate([waits.lag, lag]) * period_s
    start, settled = np.zeros(len(activities)), False
    while not settled:
        later = start.copy()
        np.maximum.at(later, waiter, start[source] + seconds)
        settled, start = bool((later <= start).all()), later
    taken = start[graph.hop_ptr[1:] - 1 if machine.router_buffers else graph.hop_ptr[:-1]]
    first = graph.hop_ptr[:-1]
    sent = np.repeat(np.arange(kernels), np.diff(arrays.write_ptr))
    read = np.repeat(np.arange(kernels), np.diff(arrays.read_ptr))
    made, freed = np.full((2, len(first)), -np.inf)
    made[arrays.writes] = start[sent]
    np.maximum.at(freed, arrays.reads, (start[:kernels] + graph.busy_s[:kernels])[read])
    return BufferTimes(period_s, taken, freed, made, start[first] + graph.busy_s[first])


def check_start_times(program: LoweredProgram, graph: EventGraph, channels: ChannelArrays) -> None:
    """Checks that the start times of a program keep every wait, in one pass.

    They then prove that it answers once a period and does not deadlock.

    Raises:
        CompileError: MCM-T017 for an activity that starts too early, or numbers that are no times.
    """
    start, place = np.array(program.start_s), "start_s"
    if len(start) != len(graph.busy_s):
        problem = f"{len(start)} start times for {len(graph.busy_s)} kernels and hops"
    elif not (0 < program.period_s < np.inf and start.min() >= 0 and start.max() < np.inf):
        problem = f"start times of {start.min()} to {start.max()} s, every {program.period_s} s"
    else:
        late, early = broken_wait(graph, channels, program.period_s, start)
        if late < 0:
            return
        place = f"start_s[{late}]"
        problem = (
            f"{activity_name(program, graph, late)} starts at {start[late]} s, too early after "
            f"{activity_name(program, graph, early)} at {start[early]} s"
        )
    raise CompileError.of("MCM-T017", problem, at=f"program.json: {place}")
