"""From the dataflow of a partition to the arrays that the simulator plays."""

from __future__ import annotations

import numpy as np
from numba import njit

from mcm_compiler.partition import Longs
from mcm_hardware.batch.dataflow import Dataflow
from mcm_hardware.batch.placement import Placement
from mcm_hardware.batch.problem_tables import ProblemTables
from mcm_hardware.program_arrays import ProgramArrays

_HOST = -1


@njit(nogil=True, cache=True)
def assemble(
    tables: ProblemTables, placement: Placement, flow: Dataflow, position: Longs, slots: int
) -> ProgramArrays:
    """The program of a partition, as `program_arrays` makes it from a lowered one.

    Args:
        tables: the problem.
        placement: from `place`.
        flow: from `follow_tensors`.
        position: `[I]`, where each item stands in the order of execution; chips keep their ranges.
        slots: receive buffers per tensor.
    """
    wire_ptr = np.zeros(len(flow.wire_value) + 1, np.int64)
    for wire in range(len(flow.wire_value)):
        wire_ptr[wire + 1] = wire_ptr[wire] + flow.wire_count[wire]
    arrivals, outputs = len(flow.arrival_wire), len(tables.output_values)
    count = arrivals + outputs
    source = np.empty(count, np.int64)
    destination = np.empty(count, np.int64)
    size_bytes = np.empty(count, np.int64)
    after = np.full(count, -1)
    writer = np.full(count, -1)
    transfer_of = np.empty(arrivals, np.int64)
    for arrival in range(arrivals):
        wire = flow.arrival_wire[arrival]
        transfer = wire_ptr[wire] + flow.arrival_place[arrival]
        transfer_of[arrival] = transfer
        destination[transfer] = flow.arrival_chip[arrival]
        size_bytes[transfer] = tables.value_bytes[flow.wire_value[wire]]
        source[transfer] = flow.wire_source[wire]
        if transfer == wire_ptr[wire]:
            writer[transfer] = flow.wire_writer[wire]
        elif source[transfer] != _HOST:
            # The router of the nearest chip passes it on; arrivals of a wire ascend by chip.
            source[transfer] = destination[transfer - 1]
            after[transfer] = transfer - 1
    for output in range(outputs):
        transfer = arrivals + output
        source[transfer] = flow.output_source[output]
        destination[transfer] = _HOST
        size_bytes[transfer] = tables.value_bytes[tables.output_values[output]]
        writer[transfer] = flow.output_writer[output]
    kernel_s = np.empty(len(flow.item_s))
    for item in range(len(kernel_s)):
        kernel_s[position[item]] = flow.item_s[item]
    read_ptr, reads = _reads(flow, transfer_of, position)
    write_ptr, writes = _writes(writer, position)
    return ProgramArrays(
        np.arange(placement.num_used),
        placement.item_ptr,
        kernel_s,
        read_ptr,
        reads,
        write_ptr,
        writes,
        source,
        destination,
        size_bytes,
        np.full(count, slots),
        after,
        np.full(count, -1),
    )


@njit(nogil=True, cache=True)
def _reads(flow: Dataflow, transfer_of: Longs, position: Longs) -> tuple[Longs, Longs]:
    """Transfers that each kernel waits for, ascending."""
    fetches = len(flow.fetch_item)
    transfer = np.empty(fetches, np.int64)
    for at in range(fetches):
        transfer[at] = transfer_of[flow.fetch_arrival[at]]
    by_transfer = _counting_order(transfer, len(transfer_of))
    kernel = np.empty(fetches, np.int64)
    for at in range(fetches):
        kernel[at] = position[flow.fetch_item[by_transfer[at]]]
    by_kernel = _counting_order(kernel, len(position))
    reads = np.empty(fetches, np.int64)
    for at in range(fetches):
        reads[at] = transfer[by_transfer[by_kernel[at]]]
    return _row_ptr(kernel, len(position)), reads


@njit(nogil=True, cache=True)
def _writes(writer: Longs, position: Longs) -> tuple[Longs, Longs]:
    """Transfers that each kernel makes ready to send, ascending."""
    made = np.flatnonzero(writer >= 0)
    kernel = position[writer[made]]
    return _row_ptr(kernel, len(position)), made[_counting_order(kernel, len(position))]


@njit(nogil=True, cache=True)
def _row_ptr(rows: Longs, count: int) -> Longs:
    ptr = np.zeros(count + 1, np.int64)
    for row in rows:
        ptr[row + 1] += 1
    for row in range(count):
        ptr[row + 1] += ptr[row]
    return ptr


@njit(nogil=True, cache=True)
def _counting_order(keys: Longs, count: int) -> Longs:
    """Indices of `keys`, which are below `count`, in ascending order of key; stable."""
    free = _row_ptr(keys, count)
    order = np.empty(len(keys), np.int64)
    for index in range(len(keys)):
        order[free[keys[index]]] = index
        free[keys[index]] += 1
    return order
