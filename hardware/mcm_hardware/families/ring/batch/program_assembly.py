"""From the dataflow of a partition to the arrays that the simulator plays."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inner_njit
from mcm_compiler.contracts.partition import Longs
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.compiled.stable_order import order_by_row, row_ptr
from mcm_hardware.event_graph.program_arrays import ProgramArrays
from mcm_hardware.event_graph.steady_schedule import BufferSizes
from mcm_hardware.families.ring.batch.chip_memory import ChipPlans
from mcm_hardware.families.ring.batch.dataflow import Dataflow
from mcm_hardware.families.ring.batch.problem_tables import ValueTables


@inner_njit
def assemble(
    values: ValueTables,
    item_ptr: Longs,
    flow: Dataflow,
    plans: ChipPlans,
    slots: int,
    end: int,
) -> ProgramArrays:
    """The program of a partition, as `program_arrays` makes it from a lowered one.

    Args:
        values: of the problem.
        item_ptr: `[P + 1]`, as in `Placement`.
        flow: from `follow_tensors`.
        plans: from `plan_chips`.
        slots: receive buffers per tensor.
        end: the last chip of a package whose ends alone the host reaches, else -1.
    """
    wire_ptr = np.zeros(len(flow.wires) + 1, np.int64)
    for wire in range(len(flow.wires)):
        wire_ptr[wire + 1] = wire_ptr[wire] + flow.wires[wire, 3]
    arrivals, outputs, streams = len(flow.arrivals), len(values.outputs), len(plans.streams)
    count = arrivals + outputs + streams
    position = plans.position
    source = np.empty(count, np.int64)
    destination = np.empty(count, np.int64)
    size_bytes = np.empty(count, np.int64)
    slots_of = np.full(count, slots)
    after = np.full(count, -1)
    reuses = np.full(count, -1)
    writer = np.full(count, -1)
    transfer_of = np.empty(arrivals, np.int64)
    for arrival in range(arrivals):
        chip, wire = flow.arrivals[arrival, 0], flow.arrivals[arrival, 1]
        transfer = wire_ptr[wire] + flow.arrivals[arrival, 2]
        transfer_of[arrival] = transfer
        source[transfer], destination[transfer] = flow.wires[wire, 0], chip
        size_bytes[transfer] = values.size_bytes[flow.wires[wire, 1]]
        if transfer == wire_ptr[wire]:
            writer[transfer] = flow.wires[wire, 2]
        elif source[transfer] != HOST or 0 <= end != chip:
            # The router of the nearest chip passes it on; arrivals of a wire ascend by chip.
            source[transfer] = destination[transfer - 1]
            after[transfer] = transfer - 1
    for output in range(outputs):
        transfer = arrivals + output
        source[transfer], destination[transfer] = flow.outputs[output, 0], HOST
        size_bytes[transfer] = values.size_bytes[values.outputs[output]]
        wire = flow.outputs[output, 2]
        if wire < 0:
            writer[transfer] = flow.outputs[output, 1]
        else:
            after[transfer] = wire_ptr[wire + 1] - 1
            source[transfer] = destination[after[transfer]]
    for stream in range(streams):
        transfer = arrivals + outputs + stream
        source[transfer], destination[transfer] = OFF_PACKAGE, plans.streams[stream, 1]
        size_bytes[transfer] = values.size_bytes[plans.streams[stream, 0]]
        slots_of[transfer] = 1
        reuses[transfer] = arrivals + outputs + plans.streams[stream, 3]
    kernel_s = np.empty(len(position))
    kernel_s[position] = flow.item_s
    read_ptr, reads = _reads(flow, transfer_of, plans, arrivals + outputs)
    write_ptr, writes = _writes(writer, position)
    return ProgramArrays(
        np.arange(len(item_ptr) - 1),
        item_ptr,
        kernel_s,
        np.zeros(len(position)),
        read_ptr,
        reads,
        write_ptr,
        writes,
        source,
        destination,
        size_bytes,
        slots_of,
        after,
        reuses,
        np.where(reuses < np.arange(count), 0, 1),
        np.zeros(count + 1, np.int64),
        np.empty(0, np.int64),
        np.zeros(count, np.int64),
        0,
    )


@inner_njit
def buffer_sizes(
    values: ValueTables, flow: Dataflow, program: ProgramArrays, free_bytes: Longs
) -> BufferSizes:
    """Bytes of additional buffers of a program from `assemble`.

    Args:
        values: of the problem.
        flow: from `follow_tensors`.
        program: from `assemble`.
        free_bytes: `[D]`, of each device.
    """
    count = len(program.source)
    size_bytes, sent = np.zeros(count, np.int64), np.full(count, -1)
    first = np.full(len(flow.roots) + 1, -1)
    written = np.zeros(count, np.bool_)
    written[program.writes] = True
    t = variable(0)
    for wire in range(len(flow.wires)):
        for place in range(flow.wires[wire, 3]):
            size_bytes[t] = values.room_bytes[flow.wires[wire, 1]]
            if place == 0 and written[t]:
                sent[t] = _first(first, int(flow.wires[wire, 4]), t)
            t += 1
    for output in range(len(values.outputs)):
        size_bytes[t] = values.room_bytes[values.outputs[output]]
        if written[t]:
            sent[t] = _first(first, int(flow.outputs[output, 3]), t)
        t += 1
    return BufferSizes(free_bytes, size_bytes, sent)


@inner_njit
def _first(first: Longs, row: int, t: int) -> int:
    """The first transfer that leaves from a root; `t` itself where that has no row."""
    if row < 0:
        return t
    if first[row] < 0:
        first[row] = t
    return int(first[row])


@inner_njit
def _reads(
    flow: Dataflow, transfer_of: Longs, plans: ChipPlans, first_stream: int
) -> tuple[Longs, Longs]:
    """Transfers that each kernel waits for, ascending."""
    transfer = transfer_of[flow.fetches[:, 1]]
    ascending = order_by_row(transfer, row_ptr(transfer, len(transfer_of)))
    streams = first_stream + np.arange(len(plans.streams))
    reads = np.concatenate((transfer[ascending], streams))
    kernel = np.concatenate((plans.position[flow.fetches[:, 0][ascending]], plans.streams[:, 2]))
    ptr = row_ptr(kernel, len(plans.position))
    return ptr, reads[order_by_row(kernel, ptr)]


@inner_njit
def _writes(writer: Longs, position: Longs) -> tuple[Longs, Longs]:
    """Transfers that each kernel makes ready to send, ascending."""
    made = np.flatnonzero(writer >= 0)
    kernel = position[writer[made]]
    ptr = row_ptr(kernel, len(position))
    return ptr, made[order_by_row(kernel, ptr)]
