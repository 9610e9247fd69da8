"""The simulator of steps: events of devices and channels, compiled.

What a step is stands in `mcm_compiler.contracts.boxes.evaluation`. There is no queue of events: a
device has one op that runs and a channel one copy that is on its way. The next event is therefore
the earliest of two times per device.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit, lean_njit
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_hardware.compiled import heap
from mcm_hardware.families.box.step_arrays import Scratch, StepArrays, StepRecord, Tally, lay_out


@lean_njit
def first_fault(placements: Ints, allowed: Bools, leader: Ints) -> int:
    """First fault of placements: 0 nothing, 1 no such device, 2 not allowed, 3 divided.

    Args:
        placements: `[B, N]`.
        allowed: `[N, D]`.
        leader: `[N]`, an op that each op runs together with.
    """
    devices = allowed.shape[1]
    for b in range(len(placements)):
        place = placements[b]
        for n in range(len(place)):
            if not 0 <= place[n] < devices:
                return 1
            if not allowed[n, place[n]]:
                return 2
            if place[leader[n]] != place[n]:
                return 3
    return 0


@lean_njit
def simulate_all(
    step: StepArrays,
    placements: Ints,
    room: Scratch,
    seconds: Floats,
    peaks: Longs,
    seconds_by_device: Floats,
    record: StepRecord,
) -> int:
    """Simulates placements one after another.

    Args:
        step: the problem and the box.
        placements: `[B, N]`.
        room: see there.
        seconds: `[B]`, written.
        peaks: `[B, D]`, written.
        seconds_by_device: `[2, B, D]`, written: of ops, and of copies that leave.
        record: of one placement, written; empty for several.

    Returns:
        Copies of the last placement.
    """
    held = room.held
    for b in range(len(placements)):
        lay_out(step, placements[b], room)
        for d in range(len(held)):
            peaks[b, d] = held[d]
        seconds_by_device[:, b] = 0.0
        tally = Tally(held, peaks[b], seconds_by_device[0, b], seconds_by_device[1, b])
        begin(placements[b], room.marks)
        for n in range(len(step.waits)):
            room.pending[n] = step.waits[n]
        seconds[b] = _play(step, placements[b], room, tally, record)
    return room.copy_begin[len(step.made)]


@lean_inner_njit
def _play(step: StepArrays, place: Ints, room: Scratch, tally: Tally, record: StepRecord) -> float:
    """Plays the events of one step, and returns when the last op ends."""
    devices = len(step.kind_of)
    room.doing[:] = -1
    room.ends[:] = np.inf
    for n in range(len(place)):
        if step.waits[n] == 0:
            push(room, n, place[n], step.priority)
    now, finish, copies = 0.0, 0.0, 0
    while now < np.inf:
        finish = now
        copies = _start(step, room, now, copies, tally, record)
        now = np.inf
        for d in range(devices):
            now = min(now, room.ends[0, d], room.ends[1, d])
            room.marks[FRESH, d] = room.marks[END, d]
        if now < np.inf:
            _end(step, place, room, now)
    return finish


@inlined_njit
def _end(step: StepArrays, place: Ints, room: Scratch, now: float) -> None:
    """Ends what is due: ops, then copies, by device."""
    doing, ends = room.doing, room.ends
    for d in range(len(room.held)):
        if ends[0, d] == now:
            _end_op(step, place, room, doing[0, d], d)
            doing[0, d], ends[0, d] = -1, np.inf
    for d in range(len(room.held)):
        if ends[1, d] == now:
            _end_copy(step, place, room, doing[1, d], d)
            doing[1, d], ends[1, d] = -1, np.inf


@inlined_njit
def _start(
    step: StepArrays, room: Scratch, now: float, copies: int, tally: Tally, record: StepRecord
) -> int:
    """Starts ops on devices that are free, then copies; returns how many copies have started."""
    doing, ends = room.doing, room.ends
    for d in range(len(step.kind_of)):
        if doing[0, d] < 0 and room.marks[FIRST, d] < room.marks[END, d]:
            n = pop(room, d, step.priority)
            doing[0, d] = n
            ends[0, d] = now + step.duration[n, step.kind_of[d]]
            _start_op(step, n, d, now, ends[0, d], tally, record)
    for d in range(len(step.kind_of)):
        if doing[1, d] < 0 and room.channels[0, d] < room.channels[1, d]:
            doing[1, d] = room.sent[room.channels[0, d]]
            room.channels[0, d] += 1
            ends[1, d] = _start_copy(step, room, doing[1, d], d, now, copies, tally, record)
            copies += 1
    return copies


@inlined_njit
def _start_op(
    step: StepArrays, n: int, d: int, now: float, end: float, tally: Tally, record: StepRecord
) -> None:
    tally.busy[d] += step.duration[n, step.kind_of[d]]
    for m in range(step.made_begin[n], step.made_begin[n + 1]):
        v = step.made[m]
        if step.view_read[v] < 0 and not step.begins[v]:
            tally.held[d] += step.value_bytes[v]
    tally.peak[d] = max(tally.peak[d], tally.held[d])
    if len(record.start):
        record.start[n], record.end[n] = now, end


@inlined_njit
def _start_copy(
    step: StepArrays,
    room: Scratch,
    copy: int,
    d: int,
    now: float,
    started: int,
    tally: Tally,
    record: StepRecord,
) -> float:
    """Starts a copy that leaves device `d`, and returns when it ends."""
    v, to = room.copy_value[copy], room.copy_to[copy]
    took = step.latency[d, to] + step.value_bytes[v] / step.rate[d, to]
    tally.copying[d] += took
    tally.held[to] += step.value_bytes[v]
    tally.peak[to] = max(tally.peak[to], tally.held[to])
    if len(record.start):
        record.copies[started, 0], record.copies[started, 1] = v, d
        record.copies[started, 2] = to
        record.copy_times[started, 0], record.copy_times[started, 1] = now, now + took
    return now + took


@inlined_njit
def _end_op(step: StepArrays, place: Ints, room: Scratch, n: int, d: int) -> None:
    """Frees what the op read, and hands on what it made."""
    for r in range(step.read_begin[n], step.read_begin[n + 1]):
        _release(step, room, int(room.read_block[r]), d)
    for m in range(step.made_begin[n], step.made_begin[n + 1]):
        v = step.made[m]
        _wake(step, place, room, v, d)
        # Destinations ascending; copies are numbered by their first reader.
        first = room.channels[1, d]
        for c in range(room.copy_begin[m], room.copy_begin[m + 1]):
            at = room.channels[1, d]
            while at > first and room.copy_to[room.sent[at - 1]] > room.copy_to[c]:
                room.sent[at] = room.sent[at - 1]
                at -= 1
            room.sent[at] = c
            room.channels[1, d] += 1
        _release(step, room, int(room.block[v]), d)


@inlined_njit
def _end_copy(step: StepArrays, place: Ints, room: Scratch, copy: int, d: int) -> None:
    """Frees what was copied, and hands on the copy."""
    v = room.copy_value[copy]
    _release(step, room, int(room.block[v]), d)
    _wake(step, place, room, v, room.copy_to[copy])


@inlined_njit
def _wake(step: StepArrays, place: Ints, room: Scratch, v: int, d: int) -> None:
    """Notify the readers of a value on a device that it is there."""
    for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
        n = step.readers[r]
        if place[n] == d:
            room.pending[n] -= 1
            if room.pending[n] == 0:
                push(room, n, d, step.priority)


@inlined_njit
def _release(step: StepArrays, room: Scratch, block: int, d: int) -> None:
    """One that needs a block on a device needs it no more."""
    if block < 0:
        return
    room.references[block] -= 1
    if room.references[block] == 0:
        values = len(step.producer)
        v = block if block < values else room.copy_value[block - values]
        room.held[d] -= step.value_bytes[v]


@lean_njit
def longest_paths(step: StepArrays, fastest: Floats, longest: Floats) -> None:
    """The longest path from each op to the end of the step, the op itself included.

    Args:
        step: the problem and the box.
        fastest: `[N]`, time of each op.
        longest: `[N]`, written.
    """
    for n in range(len(fastest) - 1, -1, -1):
        behind = 0.0
        for m in range(step.made_begin[n], step.made_begin[n + 1]):
            v = step.made[m]
            for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
                behind = max(behind, longest[step.readers[r]])
        longest[n] = fastest[n] + behind


FIRST, END, FRESH = 0, 1, 2
"""Rows of the marks: where the queue of each device begins, ends, and ended before this round."""


@lean_inner_njit
def begin(place: Ints, marks: Longs) -> None:
    """Lays out empty queues, each with space for all ops of its device."""
    marks[:] = 0
    for n in range(len(place)):
        marks[FRESH, place[n]] += 1
    total = 0
    for d in range(marks.shape[1]):
        size = marks[FRESH, d]
        marks[:, d] = total
        total += size


@inlined_njit
def push(room: Scratch, n: int, d: int, priority: Floats) -> None:
    """Puts an op into the queue of its device.

    With priorities it is a heap; without, ops stand in the order of rounds, and those of one round
    in the order of their numbers.
    """
    ready, marks = room.ready, room.marks
    at = marks[END, d]
    marks[END, d] += 1
    if len(priority) > 0:
        first = marks[FIRST, d]
        heap.push(room.urgency[first:], ready[first:], at - first, -priority[n], n)
        return
    while at > marks[FRESH, d] and ready[at - 1] > n:
        ready[at] = ready[at - 1]
        at -= 1
    ready[at] = n


@inlined_njit
def pop(room: Scratch, d: int, priority: Floats) -> int:
    """Takes the op out of the queue of a device that starts next."""
    first = room.marks[FIRST, d]
    n = int(room.ready[first])
    if len(priority) > 0:
        count = room.marks[END, d] - first
        room.marks[END, d] = first + heap.pop(room.urgency[first:], room.ready[first:], count)
    else:
        room.marks[FIRST, d] += 1
    return n
