"""The batch evaluator of ring packages: compiled code on all cores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.machines.package_limits import ring_limits
from mcm_compiler.placements.compiled_rules import breaks_rule
from mcm_hardware.event_graph.program_arrays import ChannelArrays, channel_arrays
from mcm_hardware.event_graph.steady_schedule import fastest
from mcm_hardware.families.ring.batch.chip_memory import plan_chips
from mcm_hardware.families.ring.batch.dataflow import follow_tensors
from mcm_hardware.families.ring.batch.legalised_partition import place
from mcm_hardware.families.ring.batch.problem_tables import ProblemTables
from mcm_hardware.families.ring.batch.program_assembly import assemble, buffer_sizes
from mcm_hardware.families.ring.batch.table_builder import build_tables
from mcm_hardware.families.ring.ring_machine import RingSpec, ring_machine

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
            end=len(spec.chips) - 1 if ring_limits(machine).at_ends else -1,
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
        results = ResultRows(
            kind=np.zeros(count, np.int32),
            period_s=np.full(count, np.inf),
            latency_s=np.full(count, np.inf),
            high_water_bytes=np.zeros((count, num_chips), np.int64),
            chip_busy_s=np.zeros((count, num_chips)),
            link_busy_s=np.zeros((count, num_chips)),
            shared_busy_s=np.zeros(count),
        )
        rows = np.array(partitions, np.int32, order="C")
        run = partial(self._run, rows, results)
        starts = range(0, count, CHUNK)
        if len(starts) <= 1:
            for start in starts:
                run(start)
        else:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                list(threads.map(run, starts))
        if not self._package.shared.size:
            results = results._replace(shared_busy_s=np.empty(0))
        return BatchResults(**results._asdict())

    def _run(self, rows: Ints, results: ResultRows, start: int) -> None:
        end = min(start + CHUNK, len(rows))
        evaluate_range(self._tables, self._package, rows, start, end, results)


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


class ResultRows(NamedTuple):
    """Where results go; fields as in `mcm_compiler.contracts.evaluation.BatchResults`."""

    kind: Ints
    period_s: Floats
    latency_s: Floats
    high_water_bytes: Longs
    chip_busy_s: Floats
    link_busy_s: Floats
    shared_busy_s: Floats


@entry_njit
def evaluate_range(
    tables: ProblemTables,
    package: PackageTables,
    partitions: Ints,
    begin: int,
    end: int,
    results: ResultRows,
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
