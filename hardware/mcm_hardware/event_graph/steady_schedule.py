"""The static order of one period: channels serve by start times instead of by inference.

Served inference by inference, a channel that carries tensors of distant stages couples them: that
of the late stage waits for inferences before, that of the early one for the late stage. A schedule
of one period has no such waits (iterative modulo scheduling, Rau 1994). Its start times s with
period P fulfil `s[b] >= s[a] + seconds - lag * P` for every wait, so that they prove that the
program runs once every P and does not deadlock. Each resource serves by `s mod P`; two activities
that it serves one after another are as many inferences apart as their `floor(s / P)` differ.
In *rounds*, where activity a of inference i is part of round `i + floor(s[a] / P)`, no lag is
negative.

A tensor needs as many buffers as it lives periods. Times are whole multiples of a power of two
seconds, so that sums of them are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Bools, Floats, Longs
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.event_graph.cycle_ratio import (
    Performance,
    improve,
    maximum_cycle_ratio,
    performance,
    with_times,
)
from mcm_hardware.event_graph.graph import EventGraph, event_graph
from mcm_hardware.event_graph.max_plus import busy_per_resource
from mcm_hardware.event_graph.program_arrays import ChannelArrays, ProgramArrays
from mcm_hardware.event_graph.service_order import Waits, empty_waits, ready_order, serve_in_order

LEAST_GAIN = 1e-3
"""Share of the period that start times have to save; where they do not, a program has none."""

TICKS = 40
"""Binary digits of a period in ticks, which are what start times are multiples of."""

_MOST_TICKS = 2.0**52
_ATTEMPTS = 4
_ORDERS = 8


class BufferSizes(NamedTuple):
    """Bytes of additional buffers.

    Attributes:
        free_bytes: `[D]`, free memory of each device.
        size_bytes: `[T]`, a buffer for each transfer.
        sent: `[T]`, number of what is sent, below T: transfers of one tensor have the same send
            buffers; -1 where there are none.
    """

    free_bytes: Longs
    size_bytes: Longs
    sent: Longs


class SteadySchedule(NamedTuple):
    """Start times of a steady state in which all inferences are alike.

    Attributes:
        period_s: time from one inference to the next.
        start_s: `[A]`, of each activity of inference 0; empty where the order by inference is as
            good.
        slots: `[T]`, buffers that each transfer needs for it.
    """

    period_s: float
    start_s: Floats
    slots: Longs


@entry_njit
def served(
    graph: EventGraph, channels: ChannelArrays, period_s: float, start_s: Floats
) -> EventGraph:
    """A graph whose channels serve by start times.

    Args:
        graph: one that is served by inference.
        channels: of the machine.
        period_s: of the start times; infinite for the order of a lone inference.
        start_s: `[A]`, start times that `broken_wait` lets pass.
    """
    shift, place = _rounds(period_s, start_s)
    waits, count = graph.waits, len(start_s)
    lag = waits.lag.copy()
    for a in range(count):
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            lag[w] += shift[a] - shift[waits.source[w]]
    arcs, ptr = _with_engines(graph, lag, shift)
    order = ready_order(variable(0), graph.resource, graph.busy_s, ptr, arcs, place)
    before, before_lag = serve_in_order(order, graph.resource, graph.num_resources, channels.shared)
    return EventGraph(
        graph.num_resources,
        graph.resource,
        graph.busy_s,
        graph.latency_s,
        graph.hop_ptr,
        graph.wait_ptr,
        Waits(waits.source, waits.seconds, lag, waits.for_buffer),
        order,
        before,
        before_lag,
        np.full(count, -1, np.int64),
        graph.finals,
        shift,
    )


@inner_njit
def _rounds(period_s: float, start_s: Floats) -> tuple[Longs, Floats]:
    """`[A]` each: the period in which an activity starts, and when within it."""
    shift = np.zeros(len(start_s), np.int64)
    place = start_s.copy()
    if period_s < np.inf:
        for a in range(len(start_s)):
            whole = np.floor(start_s[a] / period_s)
            while whole * period_s > start_s[a]:
                whole -= 1.0
            while (whole + 1.0) * period_s <= start_s[a]:
                whole += 1.0
            shift[a], place[a] = int(whole), start_s[a] - whole * period_s
    return shift, place


@inner_njit
def _with_engines(graph: EventGraph, lag: Longs, shift: Longs) -> tuple[Waits, Longs]:
    """The waits, in rounds, with those of kernels for their engines."""
    kernels, count = int(graph.hop_ptr[0]), len(shift)
    room = int(graph.wait_ptr[count]) + kernels
    arcs = empty_waits(room)
    ptr = graph.wait_ptr.copy()
    at = variable(0)
    for a in range(count):
        ptr[a] = at
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            arcs.source[at], arcs.seconds[at] = graph.waits.source[w], graph.waits.seconds[w]
            arcs.lag[at] = lag[w]
            at += 1
        if a < kernels:
            one = graph.before[a]
            arcs.source[at], arcs.seconds[at] = one, graph.busy_s[one]
            arcs.lag[at] = graph.before_lag[a] + shift[a] - shift[one]
            at += 1
    ptr[count] = at
    return arcs, ptr


@entry_njit
def broken_wait(
    graph: EventGraph, channels: ChannelArrays, period_s: float, start_s: Floats
) -> tuple[int, int]:
    """Checks start times in one pass.

    Args:
        graph: one that is served by inference.
        channels: of the machine.
        period_s: above 0.
        start_s: `[A]`, none below 0.

    Returns:
        An activity that starts too early, and the one that it has to wait for. -1 and -1 where
        every wait is over in time: for data, buffers, engines and channels.
    """
    shift, place = _rounds(period_s, start_s)
    arcs, ptr = _with_engines(graph, graph.waits.lag, np.zeros(len(start_s), np.int64))
    for a in range(len(start_s)):
        for w in range(ptr[a], ptr[a + 1]):
            source, lag = arcs.source[w], arcs.lag[w]
            over = start_s[a] - start_s[source] + lag * period_s
            if over < arcs.seconds[w] or lag + shift[a] < shift[source]:
                return a, int(source)
    first, last = np.full(len(channels.shared), -1), np.full(len(channels.shared), -1)
    for a in np.argsort(place, kind="mergesort"):
        channel = graph.resource[a]
        if channel >= len(channels.shared) or channels.shared[channel]:
            continue
        one = last[channel]
        if one < 0:
            first[channel] = a
        elif place[a] - place[one] < graph.busy_s[one] or place[a] == place[one]:
            return int(a), int(one)
        last[channel] = a
    for channel in range(len(first)):
        a, one = first[channel], last[channel]
        if a >= 0 and place[a] + period_s - place[one] < graph.busy_s[one]:
            return int(a), int(one)
    return -1, -1


@entry_njit
def steady_schedule(
    program: ProgramArrays,
    channels: ChannelArrays,
    graph: EventGraph,
    period_s: float,
    sizes: BufferSizes,
) -> SteadySchedule:
    """Start times by which a program is faster, and the buffers that they need.

    A first schedule has no order of channels and no bounds of buffers: starts as early as data and
    engines let them, and transfers as late as buffers of now can hold what comes. It gives the
    order of channels. The second has that order, and gives the number of buffers. Where there is no
    memory for them, the waits for those of now are part of both.

    Args:
        program: one that does not deadlock.
        channels: of the machine.
        graph: its event graph, served by inference.
        period_s: its period so.
        sizes: what more buffers take.
    """
    none = SteadySchedule(period_s, np.empty(0), program.slots)
    busy = busy_per_resource(graph)
    enough = period_s * (1.0 - LEAST_GAIN)
    seconds = graph.waits.seconds[: graph.wait_ptr[-1]]
    hops = graph.resource[graph.hop_ptr[0] :]
    if busy.max() > enough or channels.shared[hops].any() or (seconds < 0.0).any():
        return none
    tick = 2.0 ** (np.ceil(np.log2(period_s)) - TICKS)
    ticks = np.ceil(graph.busy_s / tick)
    ticks[graph.hop_ptr[0] :] = np.maximum(ticks[graph.hop_ptr[0] :], 1.0)
    full = with_times(graph, ticks, np.ceil(graph.waits.seconds / tick))
    busy = busy_per_resource(full)
    owner = _owners(program, graph)
    held = np.zeros(len(program.source), np.bool_)
    for _ in range(_ATTEMPTS):
        free = _with_room_of(full, owner, held)
        least = max(np.ceil(maximum_cycle_ratio(free, busy)[0]), busy.max()) + len(ticks)
        if least * tick > enough:
            return none
        period, start = _best_order(program, channels, free, busy, least)
        if period * tick > enough:
            return none
        slots = _slots(program, full, owner, period, start)
        if not _hold_some(program, sizes, slots, held):
            return SteadySchedule(period * tick, start * tick, slots)
    return none


@inner_njit
def _best_order(
    program: ProgramArrays, channels: ChannelArrays, free: EventGraph, busy: Floats, least: float
) -> tuple[float, Floats]:
    """The shortest period of a few orders of channels, infinite where there is none; its starts.

    Where transfers want a channel at once, the starts that follow from one order give the next.

    Args:
        program: the program.
        channels: of the machine.
        free: its graph in ticks, with channels that have no order.
        busy: ticks of each resource.
        least: period of `free`.
    """
    best, found = np.inf, np.empty(0)
    start = np.zeros(len(free.busy_s))
    for attempt in range(_ORDERS):
        if not _settle(free, least, start):
            break
        if attempt == 0:
            _delay(program, free, least, start)
        shift = _rounds(least, start)[0]
        order = served(free, channels, least, start)
        start -= shift * least
        period = np.ceil(maximum_cycle_ratio(order, busy)[0]) + len(start)
        if not _settle(order, period, start):
            break
        start += shift * period
        if period < best:
            best, found = period, start.copy()
        if period <= least * (1.0 + LEAST_GAIN):
            break
    return best, found


@inner_njit
def _owners(program: ProgramArrays, graph: EventGraph) -> Longs:
    """`[W]`, the transfer for whose buffers each wait is, as far as `slots` of it says how many."""
    transfer = np.full(len(graph.busy_s), -1)
    for t in range(len(program.source)):
        transfer[graph.hop_ptr[t] : graph.hop_ptr[t + 1]] = t
    owner = np.full(len(graph.waits.source), -1)
    for a in range(len(graph.busy_s)):
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            if graph.waits.for_buffer[w]:
                kernel = a < graph.hop_ptr[0]
                t = transfer[graph.waits.source[w] if kernel else a]
                queued = program.sent_ptr[t] < program.sent_ptr[t + 1]
                if not queued if kernel else program.reuses[t] < 0:
                    owner[w] = t
    return owner


@inner_njit
def _with_room_of(graph: EventGraph, owner: Longs, held: Bools) -> EventGraph:
    """A graph in which channels have no order, and nothing waits for buffers but those held."""
    count, room = len(graph.busy_s), int(graph.wait_ptr[-1])
    waits = graph.waits
    kept = empty_waits(room)
    ptr = np.zeros(count + 1, np.int64)
    at = variable(0)
    for a in range(count):
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            if owner[w] < 0 or held[owner[w]]:
                kept.source[at], kept.seconds[at] = waits.source[w], waits.seconds[w]
                kept.lag[at], kept.for_buffer[at] = waits.lag[w], waits.for_buffer[w]
                at += 1
        ptr[a + 1] = at
    before, before_lag = graph.before.copy(), graph.before_lag.copy()
    for a in range(graph.hop_ptr[0], count):
        before[a], before_lag[a] = a, 1
    return EventGraph(
        graph.num_resources,
        graph.resource,
        graph.busy_s,
        graph.latency_s,
        graph.hop_ptr,
        ptr,
        Waits(kept.source[:at], kept.seconds[:at], kept.lag[:at], kept.for_buffer[:at]),
        graph.order,
        before,
        before_lag,
        graph.turn,
        graph.finals,
        graph.shift,
    )


@inner_njit
def _settle(graph: EventGraph, period: float, start: Floats) -> bool:
    """Raises whole start times until all waits are over in time; whether they stay exact."""
    policy = np.empty(len(start), np.int64)
    while improve(graph, period, start, policy, 0.0)[0]:
        if start.max() > _MOST_TICKS:
            return False
    return True


@inner_njit
def _delay(program: ProgramArrays, graph: EventGraph, period: float, start: Floats) -> None:
    """Delays transfers, so that what is read late takes as few buffers as it can.

    A receive buffer is held for as many periods as there are buffers, less half a period. A
    transfer starts earlier where the buffer that it leaves would be held for longer, or a reader
    would wait.
    """
    kernels, count = int(graph.hop_ptr[0]), len(start)
    first = graph.hop_ptr[:-1]
    hold = program.slots * period - np.floor(period / 2.0)
    latest, wanted = _latest(graph, period, start), np.full(len(first), -np.inf)
    leaves = np.full(len(first), np.inf)
    for a in range(kernels):
        for i in range(program.read_ptr[a], program.read_ptr[a + 1]):
            t = program.reads[i]
            wanted[t] = max(wanted[t], start[a] + graph.busy_s[a] - hold[t])
        for i in range(program.write_ptr[a], program.write_ptr[a + 1]):
            t = program.writes[i]
            leaves[t] = start[a] + hold[t] - graph.busy_s[first[t]]
    transfer = np.full(count, -1)
    transfer[first] = np.arange(len(first))
    for at in range(count - 1, -1, -1):
        t = transfer[graph.order[at]]
        if t >= 0 and program.after[t] >= 0:
            one = program.after[t]
            wanted[one] = max(wanted[one], wanted[t] + graph.busy_s[first[t]] - hold[one])
    for a in graph.order:
        if a < kernels:
            continue
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            if graph.waits.lag[w] == 0:
                came = start[graph.waits.source[w]] + graph.waits.seconds[w]
                start[a] = max(start[a], came)
        t = transfer[a]
        if t >= 0:
            one = program.after[t]
            if one >= 0:
                leaves[t] = start[first[one]] + hold[one] - graph.busy_s[a]
            start[a] = max(start[a], min(latest[a], wanted[t], leaves[t]))


@inner_njit
def _latest(graph: EventGraph, period: float, start: Floats) -> Floats:
    """`[A]`, when hops have to start so that no kernel starts later."""
    kernels, waits = int(graph.hop_ptr[0]), graph.waits
    latest = np.full(len(start), np.inf)
    latest[:kernels] = start[:kernels]
    for later in (1, 0):
        for at in range(len(start) - 1, -1, -1):
            a = graph.order[at]
            until = latest[a] if later == 0 else start[a]
            for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
                source, lag = waits.source[w], waits.lag[w]
                if source >= kernels and (lag > 0) == (later == 1):
                    ends = until - waits.seconds[w] + lag * period
                    latest[source] = min(latest[source], ends)
    return latest


@inner_njit
def _slots(
    program: ProgramArrays, graph: EventGraph, owner: Longs, period: float, start: Floats
) -> Longs:
    """`[T]`, as many buffers as each transfer has, or more where it needs them."""
    slots, waits = program.slots.copy(), graph.waits
    for a in range(len(start)):
        for w in range(graph.wait_ptr[a], graph.wait_ptr[a + 1]):
            if owner[w] >= 0:
                held = start[waits.source[w]] + waits.seconds[w] - start[a]
                slots[owner[w]] = max(slots[owner[w]], int(np.ceil(held / period)))
    return slots


@inner_njit
def more_bytes(program: ProgramArrays, sizes: BufferSizes, slots: Longs) -> Longs:
    """`[D]`, bytes that buffers take on each device beyond those of the program.

    Args:
        program: the program.
        sizes: of its buffers.
        slots: `[T]`, at least as many as the program has.
    """
    sent = np.zeros(len(slots), np.int64)
    taken = np.zeros(len(sizes.free_bytes), np.int64)
    for t in range(len(slots)):
        size = (slots[t] - program.slots[t]) * sizes.size_bytes[t]
        if program.destination[t] >= 0:
            taken[program.destination[t]] += size
        group = sizes.sent[t]
        if group >= 0 and size > sent[group]:
            taken[program.source[t]] += size - sent[group]
            sent[group] = size
    return taken


@inner_njit
def _hold_some(program: ProgramArrays, sizes: BufferSizes, slots: Longs, held: Bools) -> bool:
    """Marks transfers that must do with the buffers of now, for want of memory; whether any."""
    full = more_bytes(program, sizes, slots) > sizes.free_bytes
    any_held = False
    for t in range(len(slots)):
        destination = program.destination[t]
        there = destination >= 0 and full[destination]
        here = sizes.sent[t] >= 0 and full[program.source[t]]
        if slots[t] > program.slots[t] and (here or there):
            held[t], any_held = True, True
    return any_held


@inner_njit
def fastest(
    program: ProgramArrays, channels: ChannelArrays, sizes: BufferSizes, wanted: bool
) -> tuple[Performance, Longs]:
    """How fast a program runs with the start times that lowering gives it, if any.

    Args:
        program: one that `check_program` lets pass; its slots become those for start times.
        channels: of the machine.
        sizes: what more buffers take.
        wanted: whether it may have start times.

    Returns:
        Its performance, and the bytes that its buffers take for that, as `more_bytes`.
    """
    graph = event_graph(program, channels)
    speed = performance(graph)
    found = SteadySchedule(0.0, np.empty(0), program.slots)
    if wanted and speed.runs:
        found = steady_schedule(program, channels, graph, speed.period_s, sizes)
    if len(found.start_s) == 0:
        return speed, np.zeros(len(sizes.free_bytes), np.int64)
    taken = more_bytes(program, sizes, found.slots)
    program.slots[:] = found.slots
    graph = event_graph(program, channels)
    lone = performance(served(graph, channels, np.inf, found.start_s))
    many = performance(served(graph, channels, found.period_s, found.start_s))
    return Performance(True, many.period_s, lone.latency_s, speed.busy_s, many.critical), taken
