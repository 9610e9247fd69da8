"""The batch evaluator of ring packages: compiled code on all cores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE
from mcm_compiler.placements.compiled_rules import breaks_rule
from mcm_hardware.compiled.plain_numbers import variable
from mcm_hardware.compiled.stable_order import order_by_row, row_ptr
from mcm_hardware.event_graph.program_arrays import ChannelArrays, ProgramArrays, channel_arrays
from mcm_hardware.event_graph.steady_schedule import BufferSizes, fastest
from mcm_hardware.families.ring.batch.chip_memory import ChipPlans, plan_chips
from mcm_hardware.families.ring.batch.dataflow import Dataflow, follow_tensors
from mcm_hardware.families.ring.batch.legalised_partition import place
from mcm_hardware.families.ring.batch.problem_tables import ProblemTables, ValueTables
from mcm_hardware.families.ring.batch.table_builder import build_tables
from mcm_hardware.families.ring.ring_machine import RingSpec, ring_machine


@inner_njit
def assemble(
    values: ValueTables, item_ptr: Longs, flow: Dataflow, plans: ChipPlans, slots: int, end: int
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
        for hop in range(flow.wires[wire, 3]):
            size_bytes[t] = values.room_bytes[flow.wires[wire, 1]]
            if hop == 0 and written[t]:
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


CHUNK = 16
"""Partitions that a thread takes at once."""


class RingBatchEvaluator:
    """Implements `mcm_compiler.contracts.evaluation.BatchEvaluator`.

    Besides the results and a copy of the partitions, each thread holds the arrays of the one
    partition that it is at: some hundred bytes per operand, value and kernel.

    Its numbers are those of the passes.

    Args:
        spec: the package.
        model: the model that `problem` was built from.
        problem: the problem.
        groups: fusion group of each op that has one, by the names of both.
        durations: as `build_tables`.

    Raises:
        ValueError: as `build_tables`.
    """

    def __init__(
        self,
        spec: RingSpec,
        model: ir.Model,
        problem: PartitionProblem,
        groups: Mapping[str, str],
        durations: CostModel | None = None,
    ) -> None:
        self.name = NAME
        self._shape = (problem.num_units, problem.num_chips)
        self._tables = build_tables(model, problem, groups, spec, durations)
        machine = ring_machine(spec)
        self._package = PackageTables(
            channels=channel_arrays(machine),
            speed=np.array([chip.speed for chip in spec.chips], np.float64),
            sram_bytes=np.array([chip.sram_bytes for chip in spec.chips], np.int64),
            slots=spec.channel_slots,
            end=len(spec.chips) - 1 if spec.limits.at_ends else -1,
            streaming=spec.stream_bytes_per_s > 0,
            shared=np.array(machine.shared_channels, np.int64),
        )

    def evaluate(self, partitions: Ints) -> BatchResults:
        """Lowers and simulates each partition; see the contract.

        Raises:
            ValueError: if `partitions` is not `[B, N]`.
        """
        num_units, num_chips = self._shape
        if partitions.ndim != 2 or partitions.shape[1] != num_units:
            raise ValueError(f"partitions are {partitions.shape}, not [B, {num_units}]")
        count = len(partitions)
        results = BatchResults(
            kind=np.zeros(count, np.int32),
            period_s=np.full(count, np.inf),
            latency_s=np.full(count, np.inf),
            high_water_bytes=np.zeros((count, num_chips), np.int64),
            chip_busy_s=np.zeros((count, num_chips)),
            link_busy_s=np.zeros((count, num_chips)),
            shared_busy_s=np.zeros(count),
        )
        rows = np.array(partitions, np.int32, order="C")

        def run(start: int) -> None:
            end = min(start + CHUNK, count)
            evaluate_range(self._tables, self._package, rows, start, end, results)

        starts = range(0, count, CHUNK)
        if len(starts) <= 1:
            for start in starts:
                run(start)
        else:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                list(threads.map(run, starts))
        if not self._package.shared.size:
            results = results._replace(shared_busy_s=np.empty(0))
        return results


_RUNS, _BREAKS_RULE, _OVERFLOWS = (
    int(ResultKind.RUNS),
    int(ResultKind.BREAKS_RULE),
    int(ResultKind.OVERFLOWS),
)


class PackageTables(NamedTuple):
    """The package, as compiled code takes it.

    Attributes:
        channels: its channels; channel c, for c below C - 1, is the link from chip c to the next.
        speed: `[C]`, of each chip.
        sram_bytes: `[C]`.
        slots: buffers per tensor that travels.
        end: the last chip where the host reaches only the ends of the package, else -1.
        streaming: whether weights that do not fit are read from off-package memory.
        shared: channels that pipelines side by side share.
    """

    channels: ChannelArrays
    speed: Floats
    sram_bytes: Longs
    slots: int
    end: int
    streaming: bool
    shared: Longs


@entry_njit
def evaluate_range(
    tables: ProblemTables,
    package: PackageTables,
    partitions: Ints,
    begin: int,
    end: int,
    results: BatchResults,
) -> None:
    """Fills the rows `begin` to `end` of `results`; each depends on its own partition alone.

    Args:
        tables: the problem.
        package: the package; partitions may be for fewer chips.
        partitions: `[B, N]`.
        begin: the first row.
        end: one past the last row.
        results: rows of zeros, and infinite times.
    """
    num_chips = results.high_water_bytes.shape[1]
    engines, links = package.channels.num_channels, package.channels.num_devices - 1
    for row in range(begin, end):
        chip_of = partitions[row]
        units = tables.units
        if breaks_rule(
            units.clone_row,
            units.pinned_chip,
            units.edge_source,
            units.edge_target,
            chip_of,
            num_chips,
            tables.strict,
        ):
            results.kind[row] = _BREAKS_RULE
            continue
        placement = place(tables, chip_of)
        flow = follow_tensors(tables, placement, package.speed)
        plans = plan_chips(
            tables.values,
            placement.item_ptr,
            flow,
            package.slots,
            package.sram_bytes,
            package.streaming,
        )
        fits = True
        for chip in range(len(plans.high_water)):
            results.high_water_bytes[row, chip] = plans.high_water[chip]
            fits = fits and plans.high_water[chip] <= package.sram_bytes[chip]
        if not fits:
            results.kind[row] = _OVERFLOWS
            continue
        program = assemble(
            tables.values, placement.item_ptr, flow, plans, package.slots, package.end
        )
        free_bytes = package.sram_bytes.copy()
        free_bytes[: len(plans.high_water)] -= plans.high_water
        sizes = buffer_sizes(tables.values, flow, program, free_bytes)
        # Steps of sequences count as independent, and get start times once it is known how many
        # are in flight.
        speed, more = fastest(program, package.channels, sizes, not tables.values.held.any())
        for chip in range(len(plans.high_water)):
            results.high_water_bytes[row, chip] += more[chip]
        results.kind[row] = _RUNS
        results.period_s[row] = speed.period_s
        results.latency_s[row] = speed.latency_s
        for channel in package.shared:
            results.shared_busy_s[row] = max(results.shared_busy_s[row], speed.busy_s[channel])
        # Links behind the last used chip carry what goes to the host at the end of the ring.
        for chip in range(num_chips):
            results.link_busy_s[row, chip] = speed.busy_s[chip] if chip < links else 0.0
            results.chip_busy_s[row, chip] = speed.busy_s[engines + chip]


NAME = "ring-event-graph"
"""The note that is printed with every number of a ring's simulator."""
