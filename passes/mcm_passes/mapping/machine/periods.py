"""Periods under the analytic model for searches: one placement or many at once, on all cores."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.compiled_rules import breaks_rule
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_compiler.processes.side_by_side import side_by_side, usable_cores
from mcm_passes.mapping.loads.device_memory import streamed_weights
from mcm_passes.mapping.loads.problem_arrays import Measured, ProblemArrays, no_loads
from mcm_passes.mapping.machine.evaluation import MachineModel, period
from mcm_passes.mapping.machine.load_kernels import OnDevices, count_loads, on_devices


class RuleArrays(NamedTuple):
    """The rules of a ring and the numbers of its package, with memory in bytes.

    Attributes:
        edge_source: `[E]`, dependencies between units, those of clonable producers left out.
        edge_target: `[E]`.
        pinned_chip: `[N]`, or -1.
        pinned_clones: the clonable units that are pinned.
        strict: whether the triangle rule holds.
        speed: `[C]`.
        bytes_per_s: `[L]`, rate of each channel.
        sram: `[C]`.
        streams: whether weights that do not fit may be streamed.
        stream_buffers: that streamed weights pass through.
        packing: memory for gaps, as a multiple of the peak of live bytes.
    """

    edge_source: Ints
    edge_target: Ints
    pinned_chip: Ints
    pinned_clones: Longs
    strict: bool
    speed: Floats
    bytes_per_s: Floats
    sram: Longs
    streams: bool
    stream_buffers: int
    packing: float


@lean_inner_njit
def _period_s(
    p: ProblemArrays, m: OnDevices, r: RuleArrays, chip_of: Ints, found: Measured
) -> float:
    """The period of a partition that keeps the rules; infinite where pins or memory forbid it.

    Args:
        p: the problem.
        m: its ring.
        r: the rules.
        chip_of: `[N]`; entries of clonable units are not looked at.
        found: space for its loads.
    """
    num_chips, routes, users = p.num_chips, m.routes, p.clone_users
    for u in r.pinned_clones:
        # The first chip with a copy, or chip 0 where nothing needs one.
        first_copy = num_chips
        for e in range(users.ptr[u], users.ptr[u + 1]):
            first_copy = min(first_copy, int(chip_of[users.entries[e]]))
        if first_copy % num_chips != r.pinned_chip[u]:
            return np.inf
    count_loads(p, m, chip_of, found)
    period_s, crossed = 0.0, found.crossed
    first = routes.num_devices * (routes.num_devices + 2)
    for c in range(num_chips):
        live = int(np.ceil(found.peak[c] * r.packing))
        memory = found.weights[c] + found.held[c] + -(-live // p.block_bytes) * p.block_bytes
        streamed = streamed_weights(
            memory, found.weights[c], found.largest[c], r.sram[c], r.streams, r.stream_buffers
        )
        if streamed < 0:
            return np.inf
        for k in range(routes.begin[first + c], routes.end[first + c] if streamed else 0):
            crossed[routes.channels[k]] += streamed
        period_s = max(period_s, found.busy_s[c] / r.speed[c])
    for k in range(crossed.size):
        period_s = max(period_s, crossed[k] / r.bytes_per_s[k])
    return float(period_s)


@entry_njit
def periods_between(
    p: ProblemArrays,
    m: OnDevices,
    r: RuleArrays,
    found: Measured,
    partitions: Ints,
    begin: int,
    end: int,
    periods: Floats,
) -> None:
    """Fills `periods[begin:end]` for those rows of `partitions[B, N]`; `found` is space."""
    source, target = r.edge_source, r.edge_target
    for row in range(begin, end):
        chip_of = partitions[row]
        breaks = breaks_rule(
            p.clone_row, r.pinned_chip, source, target, chip_of, p.num_chips, r.strict
        )
        periods[row] = np.inf if breaks else _period_s(p, m, r, chip_of, found)


CHUNK = 64
"""Placements below which a second thread does not pay."""

FEW = 256
"""Placements that are evaluated in full, before it pays to compile the lean kernel (seconds, once
after installation); the numbers are the same."""


class AnalyticPeriods:
    """An `Evaluate` of one problem: the period in seconds, infinite where a rule is broken.

    Args:
        problem: the problem.
        few: placements that are evaluated in full, see `FEW`. All are on machines that are no
            rings, whose rules are not compiled.

    Attributes:
        problem: the problem.
        model: it, prepared for evaluations.
        rules: its rules and package.
    """

    def __init__(self, problem: PartitionProblem, few: int = FEW) -> None:
        self._in_full = few if problem.on_ring else sys.maxsize
        self.problem = problem
        self.model = MachineModel.of(problem)
        (source, target), limits = dependency_edges(problem), problem.limits
        self.rules = RuleArrays(
            edge_source=np.ascontiguousarray(source, np.int32),
            edge_target=np.ascontiguousarray(target, np.int32),
            pinned_chip=problem.pinned_chip,
            pinned_clones=np.flatnonzero(problem.clonable & (problem.pinned_chip >= 0)),
            strict=problem.routing == "strict",
            speed=problem.chip_speed,
            bytes_per_s=self.model.bytes_per_s,
            sram=np.array(limits.sram_bytes, np.int64),
            streams=problem.streams,
            stream_buffers=limits.stream_buffers,
            packing=limits.activation_packing,
        )

    def __call__(self, chip_of: Ints) -> float:
        """The period of one placement `chip_of[N]`."""
        return float(self.periods(np.asarray(chip_of)[None])[0])

    def periods(self, partitions: Ints) -> Floats:
        """`[B]`, the period of each row of `partitions[B, N]`."""
        rows = np.ascontiguousarray(partitions, np.int32)
        if len(rows) <= self._in_full:
            self._in_full -= len(rows)
            return np.array([period(self.problem, row) for row in rows])
        self._in_full = 0
        periods = np.empty(len(rows))
        parts = max(min(usable_cores(), len(rows) // CHUNK), 1)
        bounds = np.linspace(0, len(rows), parts + 1).astype(int).tolist()

        def fill(part: tuple[int, int]) -> None:
            on = on_devices(self.model.routes, self.problem.num_chips)
            found = no_loads(self.model.arrays, self.model.bytes_per_s.size)
            periods_between(self.model.arrays, on, self.rules, found, rows, *part, periods)

        side_by_side(fill, list(pairwise(bounds)))
        return periods
