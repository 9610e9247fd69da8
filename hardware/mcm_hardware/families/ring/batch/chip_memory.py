"""The order of each chip's kernels and the SRAM that its plan needs, for many partitions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import inner_njit
from mcm_compiler.contracts.partition import Longs
from mcm_hardware.chip.chip_spec import STREAM_BUFFERS
from mcm_hardware.compiled.stable_order import order_by_row, row_ptr
from mcm_hardware.families.ring.batch.dataflow import (
    ROOT_ITEM,
    ROOT_LEAVES,
    ROOT_READ_INSIDE,
    ROOT_VALUE,
    Dataflow,
)
from mcm_hardware.families.ring.batch.problem_tables import ValueTables
from mcm_hardware.memory.low_memory_order import live_ranges, low_memory_order
from mcm_hardware.memory.offset_assignment import plan_offsets
from mcm_hardware.memory.weight_streaming import choose_streamed


class ChipPlans(NamedTuple):
    """Schedules and memory of all chips.

    Attributes:
        position: `[I]`, where each item stands in the order of execution.
        high_water: `[P]`, bytes.
        streams: `[Z, 4]`, a weight that comes from off-package memory for one kernel: its value.
            Chip; kernel, by its place in the order of execution; the row of what had the buffer
            before, which is in the inference before for the first ones of a chip.
    """

    position: Longs
    high_water: Longs
    streams: Longs


@inner_njit
def plan_chips(
    values: ValueTables,
    item_ptr: Longs,
    flow: Dataflow,
    slots: int,
    sram_bytes: Longs,
    streaming: bool,
) -> ChipPlans:
    """Orders the kernels of all chips and plans their memory.

    Args:
        values: of the problem.
        item_ptr: `[P + 1]`, as in `Placement`.
        flow: from `follow_tensors`.
        slots: receive buffers per tensor that arrives, and send buffers per tensor that leaves.
        sram_bytes: `[C]`, what each chip has.
        streaming: whether weights that do not fit may be streamed.
    """
    high_water = _fixed_bytes(values, flow, slots)
    position = np.empty(len(flow.item_s), np.int64)
    streams = np.empty((len(flow.loads) if streaming else 0, 4), np.int64)
    num_streams = np.int64(0)
    for chip in range(len(high_water)):
        succ_ptr, succ = _successors(item_ptr, flow, chip)
        size, writer, reader_ptr, readers = _activations(values, item_ptr, flow, chip)
        kept = np.zeros(len(size), np.bool_)
        order = low_memory_order(succ_ptr, succ, size, writer, reader_ptr, readers, kept)
        first_item = item_ptr[chip]
        for place in range(len(order)):
            position[first_item + order[place]] = first_item + place
        first, last = live_ranges(order, writer, reader_ptr, readers, kept)
        high_water[chip] += plan_offsets(size, first, last, 0)[1]
        excess = high_water[chip] - sram_bytes[chip]
        if streaming and excess > 0:
            count, saved = _stream(
                values, item_ptr, flow, position, chip, excess, streams[num_streams:]
            )
            for row in range(num_streams, num_streams + count):
                streams[row, 3] += num_streams
            num_streams += count
            high_water[chip] -= saved
    return ChipPlans(position, high_water, streams[:num_streams])


@inner_njit
def _fixed_bytes(values: ValueTables, flow: Dataflow, slots: int) -> Longs:
    """Bytes that each chip holds all the time: weights, receive and send buffers."""
    fixed = np.zeros(len(flow.ends), np.int64)
    room = values.room_bytes
    for row in range(len(flow.arrivals)):
        value = flow.wires[flow.arrivals[row, 1], 1]
        fixed[flow.arrivals[row, 0]] += slots * room[value]
    for chip in range(len(fixed)):
        for row in range(_begin(flow, chip, 1), flow.ends[chip, 1]):
            if flow.roots[row, ROOT_LEAVES] == 1:
                fixed[chip] += slots * room[flow.roots[row, ROOT_VALUE]]
        for row in range(_begin(flow, chip, 3), flow.ends[chip, 3]):
            fixed[chip] += room[flow.weights[row, 0]]
    return fixed


@inner_njit
def _begin(flow: Dataflow, chip: int, table: int) -> int:
    """The first row of a chip."""
    return int(flow.ends[chip - 1, table]) if chip > 0 else 0


class _Weights(NamedTuple):
    """The weights that a chip stores, by their place among its rows of `Dataflow.weights`.

    Attributes:
        value: `[w]`, of each weight.
        size: `[w]`, bytes.
        user_ptr: `[w + 1]`, CSR of the kernels that read each weight; none of what the chip also
            sends, which stays there.
        users: those kernels, by their place in the chip's order of execution.
    """

    value: Longs
    size: Longs
    user_ptr: Longs
    users: Longs


@inner_njit
def _weights_of(
    values: ValueTables, item_ptr: Longs, flow: Dataflow, position: Longs, chip: int
) -> _Weights:
    """The weights of a chip, whose kernels are in order."""
    rows = slice(_begin(flow, chip, 3), flow.ends[chip, 3])
    value = flow.weights[rows, 0].copy()
    # What is sent stays, and so does a state.
    stays = (flow.weights[rows, 1] == 1) | values.held[value]
    loads = flow.loads[_begin(flow, chip, 4) : flow.ends[chip, 4]]
    weight = loads[:, 1] - rows.start
    read = np.flatnonzero(~stays[weight])
    user_ptr = row_ptr(weight[read], len(value))
    users = position[loads[:, 0][read]] - item_ptr[chip]
    users = users[order_by_row(weight[read], user_ptr)]
    return _Weights(value, values.room_bytes[value], user_ptr, users)


@inner_njit
def _stream(
    values: ValueTables,
    item_ptr: Longs,
    flow: Dataflow,
    position: Longs,
    chip: int,
    excess: int,
    streams: Longs,
) -> tuple[int, int]:
    """Fills rows of `streams`, counted from 0, for a chip that needs `excess` bytes too many.

    Returns:
        The rows, and the bytes that the chip needs less; 0 and 0 where streaming does not help.
    """
    weights = _weights_of(values, item_ptr, flow, position, chip)
    num_kernels = item_ptr[chip + 1] - item_ptr[chip]
    for buffers in range(STREAM_BUFFERS, 0, -1):
        chosen, room = choose_streamed(
            weights.size, weights.user_ptr, weights.users, num_kernels, buffers, excess
        )
        if not chosen.any():
            continue
        saved = weights.size[chosen].sum() - buffers * room
        owner = np.repeat(np.arange(len(chosen)), np.diff(weights.user_ptr))
        read = np.flatnonzero(chosen[owner])
        kernel = weights.users[read]
        ptr = row_ptr(kernel, num_kernels)
        order, count = order_by_row(kernel, ptr), len(kernel)
        streams[:count, 0] = weights.value[owner[read[order]]]
        streams[:count, 1] = chip
        streams[:count, 2] = item_ptr[chip] + kernel[order]
        _take_turns(ptr, buffers, streams)
        return count, saved
    return 0, 0


@inner_njit
def _take_turns(ptr: Longs, buffers: int, streams: Longs) -> None:
    """Fills in what had the buffer before; kernels that stream take buffers in turn.

    Args:
        ptr: where the rows of each kernel start.
        buffers: how many there are; all that one kernel reads is in one of them.
        streams: changed in place.
    """
    num_kernels = len(ptr) - 1
    # The first row of each kernel that streams.
    turns = np.empty(num_kernels, np.int64)
    num_turns = 0
    for kernel in range(num_kernels):
        if ptr[kernel + 1] > ptr[kernel]:
            turns[num_turns] = ptr[kernel]
            num_turns += 1
    for turn in range(num_turns):
        after = turns[turn + 1] if turn + 1 < num_turns else ptr[num_kernels]
        for row in range(turns[turn], after):
            streams[row, 3] = turns[(turn - buffers) % num_turns]


@inner_njit
def _successors(item_ptr: Longs, flow: Dataflow, chip: int) -> tuple[Longs, Longs]:
    """`succ_ptr` and `succ` of a chip's kernels, as `low_memory_order` takes them."""
    first_item = item_ptr[chip]
    follows = flow.follows[_begin(flow, chip, 0) : flow.ends[chip, 0]] - first_item
    before = follows[:, 1]
    ptr = row_ptr(before, item_ptr[chip + 1] - first_item)
    return ptr, follows[:, 0][order_by_row(before, ptr)]


@inner_njit
def _activations(
    values: ValueTables, item_ptr: Longs, flow: Dataflow, chip: int
) -> tuple[Longs, Longs, Longs, Longs]:
    """Values of a chip that need SRAM for a while.

    What leaves has send buffers, a present is where its state does, and what only its own kernel
    reads stays in registers.

    Returns:
        `size`, `writer`, `reader_ptr` and `readers`, as `low_memory_order` takes them.
    """
    first_item = item_ptr[chip]
    begin, end = _begin(flow, chip, 1), flow.ends[chip, 1]
    use_begin, use_end = _begin(flow, chip, 2), flow.ends[chip, 2]
    uses = np.zeros(end - begin, np.int64)
    for row in range(use_begin, use_end):
        uses[flow.uses[row, 1] - begin] += 1
    size = np.empty(end - begin, np.int64)
    writer = np.empty(end - begin, np.int64)
    reader_ptr = np.zeros(end - begin + 1, np.int64)
    # Where the readers of a root go, or -1 for those that need no SRAM of their own.
    free = np.full(end - begin, -1)
    count = 0
    for root in range(begin, end):
        leaves = flow.roots[root, ROOT_LEAVES] == 1
        inside = flow.roots[root, ROOT_READ_INSIDE] == 1
        held = values.held[flow.roots[root, ROOT_VALUE]]
        if leaves or held or (inside and uses[root - begin] == 0):
            continue
        size[count] = values.room_bytes[flow.roots[root, ROOT_VALUE]]
        writer[count] = flow.roots[root, ROOT_ITEM] - first_item
        free[root - begin] = reader_ptr[count]
        reader_ptr[count + 1] = reader_ptr[count] + uses[root - begin]
        count += 1
    readers = np.empty(reader_ptr[count], np.int64)
    for row in range(use_begin, use_end):
        root = flow.uses[row, 1] - begin
        if free[root] >= 0:
            readers[free[root]] = flow.uses[row, 0] - first_item
            free[root] += 1
    return size[:count], writer[:count], reader_ptr[: count + 1], readers
