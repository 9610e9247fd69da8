"""The batch evaluator of ring packages: compiled code on all cores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.evaluation import BatchResults
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.contracts.target import ring_limits
from mcm_hardware.event_graph.channel_arrays import channel_arrays
from mcm_hardware.families.ring.batch.partition_evaluator import (
    PackageTables,
    ResultRows,
    evaluate_range,
)
from mcm_hardware.families.ring.batch.table_builder import build_tables
from mcm_hardware.families.ring.machine.ring_machine import ring_machine
from mcm_hardware.families.ring.machine.ring_simulator import NAME
from mcm_hardware.families.ring.machine.ring_spec import RingSpec

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
