"""The simulator of steps: events of devices and channels, compiled.

What a step is stands in `mcm_compiler.contracts.boxes.evaluation`. There is no queue of events: a
device has one op that runs and a channel one copy that is on its way, so that the next event is the
earliest of two times per device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs

FOREVER = np.int32(1 << 30)
"""Readers of a block that is never freed."""


class StepArrays(NamedTuple):
    """A problem and a box, as kernels read them; see `StepProblem` and `Box`.

    Attributes:
        value_bytes: `[V]`.
        producer: `[V]`.
        view_of: `[V]`.
        stays: `[V]`.
        kept: `[V]`.
        read_begin: `[N + 1]`.
        reads: values by op.
        made_begin: `[N + 1]`.
        made: values that each op makes, ascending.
        reader_begin: `[V + 1]`.
        readers: ops that read each value, ascending.
        duration: `[N, D]`, time of each op on each device.
        priority: `[N]`, the longest path from each op to the end; empty for the order `fifo`.
        rate: `[D, D]`, bytes per second.
        latency: `[D, D]`, seconds.
    """

    value_bytes: Longs
    producer: Ints
    view_of: Ints
    stays: Bools
    kept: Bools
    read_begin: Longs
    reads: Ints
    made_begin: Longs
    made: Ints
    reader_begin: Longs
    readers: Ints
    duration: Floats
    priority: Floats
    rate: Floats
    latency: Floats


class StepRecord(NamedTuple):
    """Where a kernel notes when what happened; all empty where nobody asks.

    Attributes:
        start: `[N]`.
        end: `[N]`.
        copies: `[C, 3]`, value, source and destination of each copy, in the order of starts.
        copy_times: `[C, 2]`, its start and end.
    """

    start: Floats
    end: Floats
    copies: Ints
    copy_times: Floats


@njit(cache=True, nogil=True)
def simulate_all(
    step: StepArrays,
    placements: Ints,
    seconds: Floats,
    peaks: Longs,
    busy: Floats,
    copying: Floats,
    record: StepRecord,
) -> int:
    """Simulates placements one after another.

    Args:
        step: the problem and the box.
        placements: `[B, N]`.
        seconds: `[B]`, written.
        peaks: `[B, D]`, written.
        busy: `[B, D]`, written.
        copying: `[B, D]`, written.
        record: of one placement, written; empty for several.

    Returns:
        Copies of the last placement.
    """
    num_ops, devices = step.duration.shape
    num_values = len(step.producer)
    references = np.empty(num_values * devices, np.int32)
    block_of = np.empty(num_values, np.int64)
    pending = np.empty(num_ops, np.int32)
    ready = np.empty(num_ops, np.int32)
    copies = 0
    for b in range(len(placements)):
        place = placements[b]
        queue_begin = np.zeros(devices + 1, np.int64)
        for n in range(num_ops):
            queue_begin[place[n] + 1] += 1
        for d in range(devices):
            queue_begin[d + 1] += queue_begin[d]
        held = np.zeros(devices, np.int64)
        channel_begin = _blocks(step, place, references, block_of, held)
        peaks[b] = held
        for n in range(num_ops):
            pending[n] = 0
            for r in range(step.read_begin[n], step.read_begin[n + 1]):
                if step.producer[step.reads[r]] >= 0:
                    pending[n] += 1
        copies = channel_begin[devices]
        seconds[b] = _play(
            step,
            place,
            (references, block_of, held, peaks[b]),
            (pending, ready, queue_begin, channel_begin),
            (busy[b], copying[b]),
            record,
        )
    return copies


@njit(cache=True, nogil=True)
def _blocks(step: StepArrays, place: Ints, references: Ints, block_of: Longs, held: Longs) -> Longs:
    """Counts who holds each block, and takes what is held from the beginning.

    Block `v * D + d` is that of value v on device d.

    Returns:
        `[D + 1]`, where the copies that leave each device begin in an array of all.
    """
    devices = len(held)
    references[:] = 0
    leaving = np.zeros(devices + 1, np.int64)
    there = np.zeros(devices, np.int32)
    for v in range(len(step.producer)):
        maker = step.producer[v]
        begin, end = step.reader_begin[v], step.reader_begin[v + 1]
        if maker < 0:
            for r in range(begin, end):
                block = v * devices + place[step.readers[r]]
                if references[block] == 0:
                    held[place[step.readers[r]]] += step.value_bytes[v]
                    references[block] = FOREVER
            continue
        home = place[maker]
        parent = step.view_of[v]
        if parent < 0:
            block = v * devices + home
        elif step.producer[parent] >= 0 and place[step.producer[parent]] == home:
            block = block_of[parent]
        else:
            block = np.int64(parent) * devices + home
        block_of[v] = block
        references[block] += 1
        if step.stays[v]:
            held[home] += step.value_bytes[v]
        if (step.kept[v] or step.stays[v]) and references[block] < FOREVER:
            references[block] += FOREVER
        for r in range(begin, end):
            there[place[step.readers[r]]] += 1
        references[block] += there[home]
        there[home] = 0
        for r in range(begin, end):
            d = place[step.readers[r]]
            if there[d]:
                references[np.int64(v) * devices + d] += there[d]
                references[block] += 1
                leaving[home + 1] += 1
                there[d] = 0
    for d in range(devices):
        leaving[d + 1] += leaving[d]
    return leaving


@njit(cache=True, nogil=True)
def _play(
    step: StepArrays,
    place: Ints,
    memory: tuple[Ints, Longs, Longs, Longs],
    queues: tuple[Ints, Ints, Longs, Longs],
    times: tuple[Floats, Floats],
    record: StepRecord,
) -> float:
    """Plays the events of one step.

    Args:
        step: the problem and the box.
        place: `[N]`.
        memory: references of blocks, the block of each value, and what is held, and was at most,
            on each device.
        queues: reads that each op waits for, room for ready ops, where the queue of each device
            begins in it, and where copies that leave each device begin.
        times: written: of ops and of copies, by device.
        record: see there.

    Returns:
        When the last op ends.
    """
    references, block_of, held, peak = memory
    pending, ready, queue_begin, channel_begin = queues
    busy, copying = times
    num_ops, devices = step.duration.shape
    by_priority = len(step.priority) > 0
    recording = len(record.start) > 0
    head, tail, fresh = queue_begin[:-1].copy(), queue_begin[:-1].copy(), queue_begin[:-1].copy()
    sent = np.empty((channel_begin[devices], 2), np.int32)
    first, last = channel_begin[:-1].copy(), channel_begin[:-1].copy()
    running = np.full(devices, -1, np.int32)
    carried = np.full((devices, 2), -1, np.int32)
    op_end, copy_end = np.full(devices, np.inf), np.full(devices, np.inf)
    busy[:] = 0.0
    copying[:] = 0.0
    for n in range(num_ops):
        if pending[n] == 0:
            _push(ready, tail, fresh[place[n]], n, place[n], step.priority, by_priority, head)
    now, finish, copies = 0.0, 0.0, 0
    while True:
        for d in range(devices):
            fresh[d] = tail[d]
        # ---- ends
        for d in range(devices):
            if op_end[d] == now and running[d] >= 0:
                n = running[d]
                running[d], op_end[d] = -1, np.inf
                finish = now
                for r in range(step.read_begin[n], step.read_begin[n + 1]):
                    v = step.reads[r]
                    maker = step.producer[v]
                    local = maker >= 0 and place[maker] == d
                    block = block_of[v] if local else np.int64(v) * devices + d
                    _release(references, held, step.value_bytes, block, devices)
                for m in range(step.made_begin[n], step.made_begin[n + 1]):
                    v = step.made[m]
                    # Destinations ascending: of the readers' devices each once.
                    for to in range(devices):
                        seen = False
                        for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
                            reader = step.readers[r]
                            if place[reader] != to:
                                continue
                            seen = True
                            if to != d:
                                break
                            pending[reader] -= 1
                            if pending[reader] == 0:
                                _push(
                                    ready, tail, fresh[d], reader, d,
                                    step.priority, by_priority, head,
                                )  # fmt: skip
                        if seen and to != d:
                            sent[last[d], 0], sent[last[d], 1] = v, to
                            last[d] += 1
                    _release(references, held, step.value_bytes, block_of[v], devices)
        for d in range(devices):
            if copy_end[d] == now and carried[d, 0] >= 0:
                v, to = carried[d, 0], carried[d, 1]
                carried[d, 0], copy_end[d] = -1, np.inf
                _release(references, held, step.value_bytes, block_of[v], devices)
                for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
                    reader = step.readers[r]
                    if place[reader] == to:
                        pending[reader] -= 1
                        if pending[reader] == 0:
                            _push(
                                ready, tail, fresh[to], reader, to,
                                step.priority, by_priority, head,
                            )  # fmt: skip
        # ---- starts
        for d in range(devices):
            if running[d] < 0 and head[d] < tail[d]:
                n = _pop(ready, head, tail, d, step.priority, by_priority)
                running[d] = n
                op_end[d] = now + step.duration[n, d]
                busy[d] += step.duration[n, d]
                for m in range(step.made_begin[n], step.made_begin[n + 1]):
                    v = step.made[m]
                    if step.view_of[v] < 0 and not step.stays[v]:
                        held[d] += step.value_bytes[v]
                peak[d] = max(peak[d], held[d])
                if recording:
                    record.start[n], record.end[n] = now, op_end[d]
        for d in range(devices):
            if carried[d, 0] < 0 and first[d] < last[d]:
                v, to = sent[first[d], 0], sent[first[d], 1]
                first[d] += 1
                carried[d, 0], carried[d, 1] = v, to
                took = step.latency[d, to] + step.value_bytes[v] / step.rate[d, to]
                copy_end[d] = now + took
                copying[d] += took
                held[to] += step.value_bytes[v]
                peak[to] = max(peak[to], held[to])
                if recording:
                    record.copies[copies, 0], record.copies[copies, 1] = v, d
                    record.copies[copies, 2] = to
                    record.copy_times[copies, 0], record.copy_times[copies, 1] = now, copy_end[d]
                copies += 1
        later = np.inf
        for d in range(devices):
            later = min(later, op_end[d], copy_end[d])
        if later == np.inf:
            return finish
        now = later


@njit(cache=True, nogil=True, inline="always")
def _release(references: Ints, held: Longs, value_bytes: Longs, block: int, devices: int) -> None:
    references[block] -= 1
    if references[block] == 0:
        held[block % devices] -= value_bytes[block // devices]


@njit(cache=True, nogil=True)
def _push(
    ready: Ints,
    tail: Longs,
    fresh: int,
    n: int,
    d: int,
    priority: Floats,
    by_priority: bool,
    head: Longs,
) -> None:
    """Puts an op into the queue of its device: in order of numbers among those of this round."""
    at = tail[d]
    tail[d] += 1
    if not by_priority:
        while at > fresh and ready[at - 1] > n:
            ready[at] = ready[at - 1]
            at -= 1
        ready[at] = n
        return
    base = head[d]
    child = at - base
    while child > 0:
        parent = (child - 1) >> 1
        other = ready[base + parent]
        if not _before(priority, n, other):
            break
        ready[base + child] = other
        child = parent
    ready[base + child] = n


@njit(cache=True, nogil=True)
def _pop(ready: Ints, head: Longs, tail: Longs, d: int, priority: Floats, by_priority: bool) -> int:
    """Takes the op out of the queue of a device that starts next."""
    base = head[d]
    n = ready[base]
    if not by_priority:
        head[d] += 1
        return n
    tail[d] -= 1
    size = tail[d] - base
    last = ready[tail[d]]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and _before(priority, ready[base + child + 1], ready[base + child]):
            child += 1
        if not _before(priority, ready[base + child], last):
            break
        ready[base + parent] = ready[base + child]
        parent = child
    ready[base + parent] = last
    return n


@njit(cache=True, nogil=True, inline="always")
def _before(priority: Floats, one: int, other: int) -> bool:
    """Whether an op starts before another one that is ready as well."""
    if priority[one] != priority[other]:
        return priority[one] > priority[other]
    return one < other
