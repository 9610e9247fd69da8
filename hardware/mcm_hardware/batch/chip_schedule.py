"""The order of each chip's kernels, and the lives of its activations, for many partitions."""

from __future__ import annotations

import numpy as np
from numba import njit

from mcm_compiler.partition import Bools, Longs
from mcm_hardware.batch.dataflow import Dataflow
from mcm_hardware.batch.placement import Placement
from mcm_hardware.batch.problem_tables import ProblemTables
from mcm_hardware.low_memory_order import live_ranges, low_memory_order


@njit(nogil=True, cache=True)
def activations(
    tables: ProblemTables, placement: Placement, flow: Dataflow, chip: int
) -> tuple[Longs, Longs, Longs, Longs, Bools]:
    """Values of a chip that need SRAM for a while, as `low_memory_order` takes them.

    What leaves has send buffers, and what only its own kernel reads stays in registers.

    Returns:
        `size`, `writer`, `reader_ptr`, `readers`, `kept`; kernels are numbered from 0 on the chip.
    """
    begin, end = flow.root_ptr[chip], flow.root_ptr[chip + 1]
    first_item = placement.item_ptr[chip]
    readers_of = np.zeros(end - begin, np.int64)
    for at in range(flow.use_ptr[chip], flow.use_ptr[chip + 1]):
        readers_of[flow.use_root[at] - begin] += 1
    index = np.full(end - begin, -1)
    count = 0
    for root in range(begin, end):
        inside = flow.root_read_inside[root] and readers_of[root - begin] == 0
        if not (flow.root_leaves[root] or inside):
            index[root - begin] = count
            count += 1
    size = np.empty(count, np.int64)
    writer = np.empty(count, np.int64)
    reader_ptr = np.zeros(count + 1, np.int64)
    for root in range(begin, end):
        value = index[root - begin]
        if value >= 0:
            size[value] = tables.value_room[flow.root_value[root]]
            writer[value] = flow.root_writer[root] - first_item
            reader_ptr[value + 1] = reader_ptr[value] + readers_of[root - begin]
    readers = np.empty(reader_ptr[count], np.int64)
    free = reader_ptr[:-1].copy()
    for at in range(flow.use_ptr[chip], flow.use_ptr[chip + 1]):
        value = index[flow.use_root[at] - begin]
        if value >= 0:
            readers[free[value]] = flow.use_item[at] - first_item
            free[value] += 1
    return size, writer, reader_ptr, readers, np.zeros(count, np.bool_)


@njit(nogil=True, cache=True)
def successors(placement: Placement, flow: Dataflow, chip: int) -> tuple[Longs, Longs]:
    """`succ_ptr` and `succ` of a chip's kernels, as `low_memory_order` takes them."""
    first_item = placement.item_ptr[chip]
    count = placement.item_ptr[chip + 1] - first_item
    begin, end = flow.follow_ptr[chip], flow.follow_ptr[chip + 1]
    ptr = np.zeros(count + 1, np.int64)
    for at in range(begin, end):
        ptr[flow.follow_before[at] - first_item + 1] += 1
    for kernel in range(count):
        ptr[kernel + 1] += ptr[kernel]
    free = ptr[:-1].copy()
    succ = np.empty(end - begin, np.int64)
    for at in range(begin, end):
        before = flow.follow_before[at] - first_item
        succ[free[before]] = flow.follow_after[at] - first_item
        free[before] += 1
    return ptr, succ
