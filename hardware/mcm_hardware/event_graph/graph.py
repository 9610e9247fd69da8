"""A lowered program as a timed event graph.

With a static order on every resource, a pipelined machine is a timed event graph (Baccelli, Cohen,
Olsder and Quadrat 1992, *Synchronization and Linearity*, chapter 2). The start of each activity is
the maximum, over what it waits for, of a start plus a constant. An arc with *lag* d waits for
the activity of d inferences before.

Every program is read by the same rules:

- A chip runs its kernels in program order, one inference after another. A kernel waits for the
  transfers it reads, and for the send buffers of what it writes: the transfer of `slots`
  inferences before must have left, or what had the buffer of a queue before. A kernel with a
  latency keeps its engine busy and reads for its duration; what it writes is there a latency later,
  and needs a send buffer no earlier.
- A transfer waits for the kernel that makes the tensor, or for the transfer that it passes on. It
  also waits for a receive buffer: what came `slots` inferences before must have been read by the
  last of its readers and passed on. A transfer that reuses the buffer of another, or takes one of a
  queue, waits for that one's readers instead. What nobody reads leaves its buffer on arrival; the
  host takes all that comes.
- A transfer takes the channels of its route, one after another, each for bytes / rate; the next
  transfer may enter while the last is on its way (latency is pipelined). It is stored in each
  router before it goes on, or, from one channel that cuts through to another, goes on as soon as
  its head is there. Routers have memory of their own for that, `slots` buffers per transfer. The
  same holds for a transfer that passes on another. What goes to a device has its receive buffer
  from the start, or from the last hop on if `Machine.router_buffers` says so. Until then the
  routers hold it, as they do what goes to the host.
- If a program holds the states of `sequences` sequences, the host sends the inputs of an inference
  once all outputs of the one that is this many before are there. It is the next step of the same
  sequence, whose token is not known earlier.
- A resource serves activities in a static order (`service_order.py`).
- A channel that all devices share interleaves what crosses it. Otherwise devices at the end of a
  pipeline would hold up those at its beginning, which are inferences ahead. Each tensor crosses
  once in a round that takes as long as all of them: none follows itself earlier, and no round is
  shorter. A fair arbiter does so that has a queue for each of them (a frame of time slots). Of the
  first inference, which enters an empty package, it serves what goes to the host or comes from it
  one after another, device after device as their last kernels become ready (`turn`). Later
  inferences take no turns, so that pipelines side by side wait for the channel and not for each
  other; for the same reason static orders count the turns of each device alone. Streamed weights
  take none, as they wait for buffers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, expanded_njit, inner_njit
from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.compiled.stable_order import order_by_row, row_ptr
from mcm_hardware.event_graph.program_arrays import ChannelArrays, ProgramArrays, row_of_route
from mcm_hardware.event_graph.service_order import Waits, empty_waits, ready_order, serve_in_order


class EventGraph(NamedTuple):
    """Activities of one inference and what they wait for.

    Activities are the K kernels, then the hops of each transfer.

    Attributes:
        num_resources: `L + D`, as in `ChannelArrays`.
        resource: `[A]`, what an activity takes.
        busy_s: `[A]`, for how long.
        latency_s: `[A]`, time from then until its result is there.
        hop_ptr: `[T + 1]`, activities of each transfer's hops; `hop_ptr[0]` is K.
        wait_ptr: `[A + 1]`, CSR of `waits` by the activity that waits.
        waits: what activities wait for besides their resources.
        order: `[A]`, activities in the static order; shorter if the program deadlocks, as
            `ready_order` says.
        before: `[A]`, activity that the resource serves before; itself on shared channels.
        before_lag: `[A]`, 0, or 1 where that is the last one of the inference before.
        turn: `[A]`, hop that a channel that all devices share serves before in the first inference,
            or -1.
        finals: activities that end an inference: hops to the host, or else last kernels.
        shift: `[A]`, the round in which each activity of inference 0 takes place; lags count
            rounds. 0 where a round is an inference; see `steady_schedule.py`.
    """

    num_resources: int
    resource: Longs
    busy_s: Floats
    latency_s: Floats
    hop_ptr: Longs
    wait_ptr: Longs
    waits: Waits
    order: Longs
    before: Longs
    before_lag: Longs
    turn: Longs
    finals: Longs
    shift: Longs


class _Activities(NamedTuple):
    """Activities without their waits; fields as in `EventGraph`."""

    hop_ptr: Longs
    resource: Longs
    busy_s: Floats
    latency_s: Floats


class _Ends(NamedTuple):
    """Activities at both ends of each transfer.

    Attributes:
        maker: `[T]`, activity that its data comes from: the last hop of the transfer that it passes
            on, or the kernel that makes the tensor, or -1.
        last_reader: `[T]`, last kernel that reads it where it arrives, or -1.
        holder: `[T]`, the transfer that had its receive buffer before.
        lag: `[T]`, how many inferences before.
        passed_ptr: `[T + 1]`, CSR of `passed`.
        passed: transfers that pass it on from where it arrives.
    """

    maker: Longs
    last_reader: Longs
    holder: Longs
    lag: Longs
    passed_ptr: Longs
    passed: Longs


@entry_njit
def event_graph(program: ProgramArrays, channels: ChannelArrays) -> EventGraph:
    """The event graph of a program, with activities served as they become ready.

    Takes time near-linear in kernels, reads, writes and hops.

    Args:
        program: one that `check_program` lets pass.
        channels: of the machine.
    """
    activities = _activities(program, channels)
    resource, busy = activities.resource, activities.busy_s
    finals = _finals(program, activities.hop_ptr)
    waits, ptr = _waits(program, channels, activities, finals)
    start = np.zeros(len(busy))
    order = ready_order(len(program.kernel_s), resource, busy, ptr, waits, start)
    turn = np.full(len(busy), -1, np.int64)
    if channels.shared.any() and len(order) == len(busy):
        turn, own_turn, line = _turns(program, channels, activities, order)
        own_waits, own_ptr = _with_turns(activities, waits, ptr, own_turn)
        start[:] = 0.0
        order = ready_order(len(program.kernel_s), resource, busy, own_ptr, own_waits, start)
        order = _with_line(program, activities.hop_ptr, order, line)
    num_resources = channels.num_channels + channels.num_devices
    before, before_lag = serve_in_order(order, resource, num_resources, channels.shared)
    return EventGraph(
        num_resources,
        resource,
        busy,
        activities.latency_s,
        activities.hop_ptr,
        ptr,
        waits,
        order,
        before,
        before_lag,
        turn,
        finals,
        np.zeros(len(busy), np.int64),
    )


@inner_njit
def _activities(program: ProgramArrays, channels: ChannelArrays) -> _Activities:
    transfers, devices = len(program.source), channels.num_devices
    hop_ptr = np.empty(transfers + 1, np.int64)
    hop_ptr[0] = len(program.kernel_s)
    for t in range(transfers):
        row = row_of_route(program.source[t], program.destination[t], devices)
        hops = channels.route_end[row] - channels.route_begin[row]
        hop_ptr[t + 1] = hop_ptr[t] + hops - _shares_read(program, t)
    activities = hop_ptr[transfers]
    resource = np.empty(activities, np.int64)
    busy = np.empty(activities, np.float64)
    latency = np.zeros(activities, np.float64)
    for p in range(len(program.chip)):
        for a in range(program.kernel_ptr[p], program.kernel_ptr[p + 1]):
            resource[a] = channels.num_channels + program.chip[p]
            busy[a] = program.kernel_s[a]
            latency[a] = program.kernel_latency_s[a]
    for t in range(transfers):
        row = row_of_route(program.source[t], program.destination[t], devices)
        shift = channels.route_begin[row] + _shares_read(program, t) - hop_ptr[t]
        for hop in range(hop_ptr[t], hop_ptr[t + 1]):
            channel = channels.routes[hop + shift]
            resource[hop] = channel
            busy[hop] = program.size_bytes[t] / channels.bytes_per_s[channel]
            latency[hop] = channels.latency_s[channel]
    return _Activities(hop_ptr, resource, busy, latency)


@expanded_njit
def _shares_read(program: ProgramArrays, t: int) -> int:
    """Channels that a transfer of streamed weights leaves to the one whose read it shares."""
    return int(program.source[t] == OFF_PACKAGE and program.after[t] >= 0)


@inner_njit
def _waits(
    program: ProgramArrays, channels: ChannelArrays, activities: _Activities, finals: Longs
) -> tuple[Waits, Longs]:
    """`waits` and `wait_ptr` of an `EventGraph`."""
    ends = _ends(program, activities.hop_ptr)
    count = len(activities.busy_s)
    room = len(program.reads) + len(program.writes) + 3 * count + len(program.source)
    room += len(program.sent)
    for t in range(len(program.source)):
        room += ends.passed_ptr[ends.holder[t] + 1] - ends.passed_ptr[ends.holder[t]]
        if program.sequences > 0 and program.source[t] == HOST:
            room += len(finals)
    waits = empty_waits(int(room))
    ptr = np.empty(count + 1, np.int64)
    w = _kernel_waits(program, activities, waits, ptr)
    ptr[count] = _hop_waits(program, channels, activities, ends, finals, waits, ptr, w)
    return waits, ptr


@inner_njit
def _kernel_waits(program: ProgramArrays, activities: _Activities, waits: Waits, ptr: Longs) -> int:
    """Fills the waits of kernels: for what they read, and for send buffers; returns their end."""
    hop_ptr, busy, latency = activities.hop_ptr, activities.busy_s, activities.latency_s
    w = variable(0)
    for a in range(len(program.kernel_s)):
        ptr[a] = w
        for i in range(program.read_ptr[a], program.read_ptr[a + 1]):
            came = int(hop_ptr[program.reads[i] + 1]) - 1
            w = _wait(waits, w, came, float(busy[came] + latency[came]), 0, False)
        for i in range(program.write_ptr[a], program.write_ptr[a + 1]):
            t = int(program.writes[i])
            # What is written late needs its buffer late.
            if program.sent_ptr[t] == program.sent_ptr[t + 1]:
                out = int(hop_ptr[t])
                freed = float(busy[out]) - float(latency[a])
                w = _wait(waits, w, out, freed, int(program.slots[t]), True)
            for k in range(program.sent_ptr[t], program.sent_ptr[t + 1]):
                out = int(hop_ptr[program.sent[k]])
                freed = float(busy[out]) - float(latency[a])
                w = _wait(waits, w, out, freed, int(program.sent_lag[t]), True)
    return w


@inner_njit
def _hop_waits(
    program: ProgramArrays,
    channels: ChannelArrays,
    activities: _Activities,
    ends: _Ends,
    finals: Longs,
    waits: Waits,
    ptr: Longs,
    w: int,
) -> int:
    """Fills the waits of hops from `w` on: for data, rounds and buffers; returns their end.

    All of it is one loop: with its steps in functions of their own, numba counts the references
    of every array in every hop, and takes three times as long.
    """
    kernels = len(program.kernel_s)
    hop_ptr, resource = activities.hop_ptr, activities.resource
    busy, latency = activities.busy_s, activities.latency_s
    cuts, round_s = channels.cuts, _rounds(channels, kernels, resource, busy)
    for t in range(len(program.source)):
        to_host = program.destination[t] == HOST
        first, end = int(hop_ptr[t]), int(hop_ptr[t + 1])
        for a in range(first, end):
            ptr[a] = w
            came = a - 1 if a > first else int(ends.maker[t])
            if came >= 0:
                whole = float(busy[came])
                if came >= kernels and cuts[resource[came]] and cuts[resource[a]]:
                    whole = max(whole - float(busy[a]), 0.0)
                w = _wait(waits, w, came, whole + float(latency[came]), 0, False)
            if program.sequences > 0 and a == first and program.source[t] == HOST:
                for out in finals:
                    after = float(busy[out] + latency[out])
                    w = _wait(waits, w, int(out), after, program.sequences, False)
            if channels.shared[resource[a]]:
                w = _wait(waits, w, a, float(round_s[resource[a]]), 1, False)
            if (to_host or channels.router_buffers) and a + 1 < end:
                # Elsewhere the receive buffers bound what is on the way.
                w = _wait(waits, w, a + 1, float(busy[a + 1]), int(program.slots[t]), True)
            if to_host or a != (end - 1 if channels.router_buffers else first):
                continue
            holder, lag = ends.holder[t], int(ends.lag[t])
            last = int(ends.last_reader[holder])
            if last >= 0:
                w = _wait(waits, w, last, float(busy[last]), lag, True)
            for i in range(ends.passed_ptr[holder], ends.passed_ptr[holder + 1]):
                out = int(hop_ptr[ends.passed[i]])
                w = _wait(waits, w, out, float(busy[out]), lag, True)
            if last < 0 and ends.passed_ptr[holder] == ends.passed_ptr[holder + 1]:
                came = int(hop_ptr[holder + 1]) - 1
                w = _wait(waits, w, came, float(busy[came] + latency[came]), lag, True)
    return w


@inner_njit
def _turns(
    program: ProgramArrays, channels: ChannelArrays, activities: _Activities, order: Longs
) -> tuple[Longs, Longs, Longs]:
    """`turn` of an `EventGraph`, that within each device, and all hops that take turns, in order.

    Device after device, as their last kernels become ready. Inputs of one device go in the order of
    readers, outputs as they become ready.
    """
    hop_ptr, count = activities.hop_ptr, len(order)
    kernels = len(program.kernel_s)
    place = np.empty(count, np.int64)
    for at in range(count):
        place[order[at]] = at
    ends_at = np.zeros(channels.num_devices, np.int64)
    for a in range(kernels):
        device = activities.resource[a] - channels.num_channels
        ends_at[device] = max(ends_at[device], place[a])
    rank = place + count
    # Against the order, so that the first reader has the last word.
    for at in range(count - 1, -1, -1):
        a = order[at]
        if a >= kernels:
            continue
        for i in range(program.read_ptr[a], program.read_ptr[a + 1]):
            for hop in range(hop_ptr[program.reads[i]], hop_ptr[program.reads[i] + 1]):
                rank[hop] = at
    rank[:kernels] = 0
    for t in range(len(program.source)):
        to_host = program.destination[t] == HOST
        device = int(program.source[t] if to_host else program.destination[t])
        first = 2 * count * ends_at[device] + 1
        for hop in range(hop_ptr[t], hop_ptr[t + 1]):
            # What waits for the buffer of another, as streamed weights do, takes no turns.
            shared = channels.shared[activities.resource[hop]]
            queued = program.reuses[t] >= 0 or program.sent_ptr[t] < program.sent_ptr[t + 1]
            takes = shared and not queued and program.source[t] != OFF_PACKAGE
            rank[hop] = first + rank[hop] if takes else 0
    turn, own = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    last = np.full(channels.num_channels, -1, np.int64)
    line = np.argsort(rank, kind="mergesort")[np.sum(rank == 0) :]
    for hop in line:
        one = last[activities.resource[hop]]
        turn[hop] = one
        if one >= 0 and (rank[one] - 1) // (2 * count) == (rank[hop] - 1) // (2 * count):
            own[hop] = one
        last[activities.resource[hop]] = hop
    return turn, own, line


@inner_njit
def _with_line(program: ProgramArrays, hop_ptr: Longs, order: Longs, line: Longs) -> Longs:
    """The order with hops that take turns in their line: inputs at the start, outputs at the end.

    Inputs wait for nothing but their turn there, and nothing waits for outputs but theirs.
    """
    leaves, in_line = np.zeros(len(order), np.bool_), np.zeros(len(order), np.bool_)
    for t in range(len(program.source)):
        leaves[hop_ptr[t] : hop_ptr[t + 1]] = program.destination[t] == HOST
    in_line[line] = True
    rest = order[~in_line[order]]
    return np.concatenate((line[~leaves[line]], rest, line[leaves[line]]))


@inner_njit
def _with_turns(
    activities: _Activities, waits: Waits, ptr: Longs, turn: Longs
) -> tuple[Waits, Longs]:
    """The waits with those for turns."""
    busy, count = activities.busy_s, len(turn)
    room = int(ptr[count]) + int(np.sum(turn >= 0))
    more = empty_waits(room)
    ends = np.empty(count + 1, np.int64)
    w = variable(0)
    for a in range(count):
        ends[a] = w
        for i in range(ptr[a], ptr[a + 1]):
            seconds, lag = float(waits.seconds[i]), int(waits.lag[i])
            w = _wait(more, w, int(waits.source[i]), seconds, lag, bool(waits.for_buffer[i]))
        if turn[a] >= 0:
            w = _wait(more, w, int(turn[a]), float(busy[turn[a]]), 0, False)
    ends[count] = w
    return more, ends


@inner_njit
def _rounds(channels: ChannelArrays, kernels: int, resource: Longs, busy: Floats) -> Floats:
    """`[L]`, time of a round of each channel that all devices share, 0 for others."""
    rounds = np.zeros(channels.num_channels, np.float64)
    for hop in range(kernels, len(busy)):
        if channels.shared[resource[hop]]:
            rounds[resource[hop]] += busy[hop]
    return rounds


@inner_njit
def _wait(waits: Waits, w: int, source: int, seconds: float, lag: int, for_buffer: bool) -> int:
    waits.source[w] = source
    waits.seconds[w] = seconds
    waits.lag[w] = lag
    waits.for_buffer[w] = for_buffer
    return w + 1


@expanded_njit
def _ends(program: ProgramArrays, hop_ptr: Longs) -> _Ends:
    transfers = len(program.source)
    maker, last_reader = _kernels_at_ends(program)
    holder, lag = np.arange(transfers), np.empty(transfers, np.int64)
    for t in range(transfers):
        if program.after[t] >= 0:
            maker[t] = hop_ptr[program.after[t] + 1] - 1
            if _shares_read(program, t):
                maker[t] = hop_ptr[program.after[t]]
        lag[t] = program.slots[t]
        if program.reuses[t] >= 0:
            holder[t] = program.reuses[t]
            lag[t] = program.reuse_lag[t]
    ptr, passed = _passed_on(program.after)
    return _Ends(maker, last_reader, holder, lag, ptr, passed)


@expanded_njit
def _kernels_at_ends(program: ProgramArrays) -> tuple[Longs, Longs]:
    """`[T]` each: the kernel that makes a transfer's tensor and the last that reads it, or -1."""
    writer = np.full(len(program.source), -1, np.int64)
    last_reader = np.full(len(program.source), -1, np.int64)
    for a in range(len(program.kernel_s)):
        for i in range(program.write_ptr[a], program.write_ptr[a + 1]):
            writer[program.writes[i]] = a
        for i in range(program.read_ptr[a], program.read_ptr[a + 1]):
            last_reader[program.reads[i]] = a
    return writer, last_reader


@expanded_njit
def _passed_on(after: Longs) -> tuple[Longs, Longs]:
    """CSR of the transfers that pass each transfer on."""
    passed = np.flatnonzero(after >= 0)
    ptr = row_ptr(after[passed], len(after))
    return ptr, passed[order_by_row(after[passed], ptr)]


@expanded_njit
def _finals(program: ProgramArrays, hop_ptr: Longs) -> Longs:
    """Activities that end an inference."""
    finals = np.empty(max(len(program.source), len(program.chip)), np.int64)
    count = 0
    for t in range(len(program.source)):
        if program.destination[t] == HOST:
            finals[count] = hop_ptr[t + 1] - 1
            count += 1
    if count == 0:
        for p in range(len(program.chip)):
            if program.kernel_ptr[p + 1] > program.kernel_ptr[p]:
                finals[count] = program.kernel_ptr[p + 1] - 1
                count += 1
    return finals[:count]
