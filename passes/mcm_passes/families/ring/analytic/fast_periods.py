"""Periods under the fast model for searches: one partition or many at once, on all cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.families.ring.analytic import fast_model
from mcm_passes.families.ring.analytic.period_kernels import RuleArrays, periods_between
from mcm_passes.families.ring.loads.ring_seconds import chip_rates, root_rates

CHUNK = 64
"""Partitions below which a second thread does not pay."""

FEW = 256
"""Partitions that are evaluated in full, before it pays to compile the lean kernel (seconds, once
after installation); the numbers are the same."""


class FastPeriods:
    """An `Evaluate` of one problem: the period in seconds, infinite where a rule is broken.

    Args:
        problem: the problem.
        few: partitions that are evaluated in full; see `FEW`.

    Attributes:
        problem: the problem.
        arrays: it as compiled code takes it.
        rules: its rules and package.
    """

    def __init__(self, problem: PartitionProblem, few: int = FEW) -> None:
        self._in_full = few
        self.problem = problem
        self.arrays = fast_model.prepared(problem).arrays
        source, target = dependency_edges(problem)
        limits = problem.limits
        self.rules = RuleArrays(
            edge_source=np.ascontiguousarray(source, np.int32),
            edge_target=np.ascontiguousarray(target, np.int32),
            pinned_chip=problem.pinned_chip,
            sram_bytes=np.array(limits.sram_bytes, np.int64),
            rate=chip_rates(problem),
            root_rate=root_rates(problem),
            streams=problem.streams,
            strict=problem.routing == "strict",
            alignment=limits.buffer_alignment_bytes,
            packing=limits.activation_packing,
            stream_slots=limits.stream_buffers,
        )

    def __call__(self, chip_of: Ints) -> float:
        """The period of one partition `chip_of[N]`."""
        return float(self.periods(np.asarray(chip_of)[None])[0])

    def periods(self, partitions: Ints) -> Floats:
        """`[B]`, the period of each row of `partitions[B, N]`."""
        rows = np.ascontiguousarray(partitions, np.int32)
        if len(rows) <= self._in_full:
            self._in_full -= len(rows)
            return np.array([fast_model.period(self.problem, row) for row in rows])
        self._in_full = 0
        periods = np.empty(len(rows))
        threads = min(os.cpu_count() or 1, len(rows) // CHUNK)
        if threads < 2:
            periods_between(self.arrays, self.rules, rows, 0, len(rows), periods)
            return periods
        bounds = np.linspace(0, len(rows), threads + 1).astype(int).tolist()

        def run(begin: int, end: int) -> None:
            periods_between(self.arrays, self.rules, rows, begin, end, periods)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, bounds[:-1], bounds[1:]))
        return periods
