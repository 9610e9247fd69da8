"""Arrays that the kernels of the simulator read and write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inlined_njit, lean_inner_njit
from mcm_compiler.arrays.rows import starts
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem


class StepArrays(NamedTuple):
    """A problem and a box, as kernels read them; see `StepProblem` and `Box`.

    Attributes:
        value_bytes: `[V]`.
        producer: `[V]`.
        view_read: `[V]`, the place in `reads` at which the op that makes the value reads what it
            is a view of, or -1.
        held: `[V]`, stays or is kept, in memory until the end.
        begins: `[V]`, in memory from the beginning.
        read_begin: `[N + 1]`.
        reads: `[R]`, values by op.
        made_begin: `[N + 1]`.
        made: values that each op makes, ascending.
        reader_begin: `[V + 1]`.
        readers: `[R]`, ops that read each value, ascending.
        reader_read: `[R]`, the place in `reads` that each of `readers` stands for.
        waits: `[N]`, reads of each op that are no weights that lie ready.
        duration: `[N, K]`, time of each op on each kind.
        kind_of: `[D]`.
        priority: `[N]`, the longest path from each op to the end; empty for the order `fifo`.
        rate: `[D, D]`, bytes per second.
        latency: `[D, D]`, seconds.
    """

    value_bytes: Longs
    producer: Ints
    view_read: Ints
    held: Bools
    begins: Bools
    read_begin: Longs
    reads: Ints
    made_begin: Longs
    made: Ints
    reader_begin: Longs
    readers: Ints
    reader_read: Ints
    waits: Ints
    duration: Floats
    kind_of: Ints
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


class Tally(NamedTuple):
    """Sums by device while a step is played.

    Attributes:
        held: `[D]`, bytes.
        peak: `[D]`, the most of them.
        busy: `[D]`, seconds of ops.
        copying: `[D]`, seconds of copies that leave.
    """

    held: Longs
    peak: Longs
    busy: Floats
    copying: Floats


class Scratch(NamedTuple):
    """Space that placements are simulated in, one after another. C is the most copies there can be.

    A *block* has a number: that of the value it was made for, or V and the number of the copy.

    Attributes:
        references: `[V + C]`, who still needs each block.
        block: `[V]`, the block of each value where it is made; -1 in a weight that is ready.
        read_block: `[R]`, the block that each read reads; -1 for weights that lie ready.
        copy_begin: `[V + 1]`, where the copies of each value begin, values in the order of `made`.
        copy_value: `[C]`.
        copy_to: `[C]`.
        sent: `[C]`, copies by the device that they leave, in the order in which they do.
        pending: `[N]`, reads that each op waits for.
        ready: `[N]`, queues of the devices, one behind another.
        urgency: `[N]`, what sorts them where they are heaps, the least first.
        marks: `[3, D]`, ready ops of each device: where they begin in `ready`, end, and ended
            before this round.
        channels: `[2, D]`, where what waits for each channel begins in `sent`, and ends.
        doing: `[2, D]`, the op that each device runs, and the copy that its channel carries; or -1.
        ends: `[2, D]`, when they end, or infinity.
        block_at: `[D]`, the block of a value on each device, or -1.
        held: `[D]`, bytes.
    """

    references: Ints
    block: Ints
    read_block: Ints
    copy_begin: Longs
    copy_value: Ints
    copy_to: Ints
    sent: Ints
    pending: Ints
    ready: Ints
    urgency: Floats
    marks: Longs
    channels: Longs
    doing: Ints
    ends: Floats
    block_at: Ints
    held: Longs


def step_arrays(problem: StepProblem, box: Box, duration: Floats, priority: Floats) -> StepArrays:
    """The tables of a problem in a box.

    Args:
        problem: what is placed.
        box: where.
        duration: `[N, K]`, seconds.
        priority: `[N]`, or empty for the order `fifo`.
    """
    made = np.argsort(problem.producer, kind="stable").astype(np.int32)
    made = made[int((problem.producer < 0).sum()) :]
    order = np.argsort(problem.reads, kind="stable").astype(np.int32)
    reader = problem.reader.astype(np.int32)
    waiting = reader[problem.producer[problem.reads] >= 0]
    return StepArrays(
        value_bytes=_own(problem.value_bytes),
        producer=_own(problem.producer),
        view_read=_view_reads(problem, reader),
        held=problem.stays | problem.kept,
        begins=_own(problem.stays),
        read_begin=_own(problem.read_begin),
        reads=_own(problem.reads),
        made_begin=starts(np.bincount(problem.producer[made], minlength=problem.num_ops)),
        made=made,
        reader_begin=starts(np.bincount(problem.reads, minlength=problem.num_values)),
        readers=reader[order],
        reader_read=order,
        waits=np.bincount(waiting, minlength=problem.num_ops).astype(np.int32),
        duration=_own(duration),
        kind_of=_own(box.kind_of),
        priority=priority,
        rate=_own(box.copy_bytes_per_s),
        latency=_own(box.copy_latency_s),
    )


def scratch(step: StepArrays) -> Scratch:
    """Space for simulating one placement after another."""
    values, ops, reads = len(step.producer), len(step.waits), len(step.reads)
    devices = len(step.kind_of)
    return Scratch(
        references=np.empty(values + reads, np.int32),
        block=np.empty(values, np.int32),
        read_block=np.empty(reads, np.int32),
        copy_begin=np.empty(values + 1, np.int64),
        copy_value=np.empty(reads, np.int32),
        copy_to=np.empty(reads, np.int32),
        sent=np.empty(reads, np.int32),
        pending=np.empty(ops, np.int32),
        ready=np.empty(ops, np.int32),
        urgency=np.empty(ops),
        marks=np.empty((3, devices), np.int64),
        channels=np.empty((2, devices), np.int64),
        doing=np.empty((2, devices), np.int32),
        ends=np.empty((2, devices)),
        block_at=np.empty(devices, np.int32),
        held=np.empty(devices, np.int64),
    )


def _view_reads(problem: StepProblem, reader: Ints) -> Ints:
    """`[V]`, where in `reads` the op that makes a view reads what it is a view of."""
    views = np.flatnonzero(problem.view_of >= 0)
    keys = reader.astype(np.int64) * problem.num_values + problem.reads
    wanted = problem.producer[views].astype(np.int64) * problem.num_values + problem.view_of[views]
    found = np.full(problem.num_values, -1, np.int32)
    found[views] = np.searchsorted(keys, wanted)
    return found


def _own(array: np.ndarray) -> np.ndarray:
    """A copy that may be written: kernels are compiled for such arrays alone."""
    return np.ascontiguousarray(array).copy()


FOREVER = np.int32(1 << 30)
"""References of a block that is never freed."""


@lean_inner_njit
def lay_out(step: StepArrays, place: Ints, room: Scratch) -> None:
    """Numbers the copies and blocks of a placement, and counts who needs each block.

    Args:
        step: the problem and the box.
        place: `[N]`.
        room: written: blocks, references, copies, what waits for channels, and bytes in memory from
            the beginning.
    """
    block_at, held = room.block_at, room.held
    values, devices = len(step.producer), len(held)
    block_at[:] = -1
    room.channels[:] = 0
    held[:] = 0
    for v in range(values):
        if step.producer[v] < 0:
            _lie_ready(step, place, room, v)
    copies = 0
    for i in range(len(step.made)):
        v = step.made[i]
        home = place[step.producer[v]]
        block = v if step.view_read[v] < 0 else room.read_block[step.view_read[v]]
        room.block[v] = block
        if block == v:
            room.references[v] = 0
        if step.begins[v]:
            held[home] += step.value_bytes[v]
        room.copy_begin[i] = copies
        needs = 1 + (FOREVER if step.held[v] else 0)
        block_at[home] = block
        for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
            d = place[step.readers[r]]
            if d == home:
                needs += 1
            elif block_at[d] < 0:
                block_at[d] = values + copies
                room.copy_value[copies], room.copy_to[copies] = v, d
                room.references[values + copies] = 1
                copies += 1
            else:
                room.references[block_at[d]] += 1
            room.read_block[step.reader_read[r]] = block_at[d]
        block_at[home] = -1
        for c in range(room.copy_begin[i], copies):
            block_at[room.copy_to[c]] = -1
        moved = copies - room.copy_begin[i]
        room.channels[0, home] += moved
        # Of several that are held, the block of views would count beyond 32 bits.
        if block >= 0 and room.references[block] < FOREVER:
            room.references[block] += needs + moved
    room.copy_begin[len(step.made)] = copies
    total = 0
    for d in range(devices):
        leaving = room.channels[0, d]
        room.channels[0, d] = room.channels[1, d] = total
        total += leaving


@inlined_njit
def _lie_ready(step: StepArrays, place: Ints, room: Scratch, v: int) -> None:
    """Takes memory for a weight on each device that reads it; leaves `block_at` at -1."""
    for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
        d = place[step.readers[r]]
        room.read_block[step.reader_read[r]] = -1
        if room.block_at[d] < 0:
            room.block_at[d] = 0
            room.held[d] += step.value_bytes[v]
    for r in range(step.reader_begin[v], step.reader_begin[v + 1]):
        room.block_at[place[step.readers[r]]] = -1
