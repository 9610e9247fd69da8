"""Periods under the fast model for searches: one partition or many at once, on all cores."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_compiler.placements.compiled_rules import breaks_rule
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_compiler.processes.side_by_side import side_by_side, usable_cores
from mcm_passes.families.ring.analytic import fast_model
from mcm_passes.families.ring.analytic.fast_model import measure
from mcm_passes.families.ring.loads.ring_kernels import Loads
from mcm_passes.families.ring.loads.ring_seconds import (
    Ring,
    load_of_chip,
    load_of_root,
    ring_of,
)
from mcm_passes.mapping.loads.device_memory import streamed_weights
from mcm_passes.mapping.loads.problem_arrays import ProblemArrays


class RuleArrays(NamedTuple):
    """What the rules and the package add to `ProblemArrays`.

    Attributes:
        edge_source: `[E]`, dependencies between units, those of clonable producers left out.
        edge_target: `[E]`.
        pinned_chip: `[N]`, or -1.
        ring: the package, with memory in bytes.
    """

    edge_source: Ints
    edge_target: Ints
    pinned_chip: Ints
    ring: Ring


@inner_njit
def loads_of(p: ProblemArrays, r: RuleArrays, chip_of: Ints, loads: Floats) -> float:
    """The period of a partition; infinite where it breaks a rule or overflows a chip.

    Args:
        p: the problem.
        r: the rules.
        chip_of: `[N]`; entries of clonable units are not looked at.
        loads: `[5, C]`, filled with the busy seconds of chips, links, host channels in and out,
            and streams, not of what chips share; left as it is where the period is infinite.
    """
    num_chips, ring = p.num_chips, r.ring
    if breaks_rule(
        p.clone_row, r.pinned_chip, r.edge_source, r.edge_target, chip_of, num_chips, ring.strict
    ):
        return np.inf
    copies, busy, totals, held, weights, peak, largest, _ = measure(p, chip_of)
    for u in range(chip_of.size if p.num_clonable else 0):
        row = p.clone_row[u]
        if row >= 0 and r.pinned_chip[u] >= 0 and r.pinned_chip[u] != np.argmax(copies[row]):
            return np.inf
    period, all_streamed = 0.0, np.zeros(num_chips, np.int64)
    for c in range(num_chips):
        live = int(np.ceil(peak[c] * ring.packing))
        memory = weights[c] + held[c] + -(-live // ring.alignment) * ring.alignment
        streamed = streamed_weights(
            memory, weights[c], largest[c], ring.room[c], ring.streams, ring.stream_slots
        )
        if streamed < 0:
            return np.inf
        all_streamed[c] = streamed
        for k in range(5):
            loads[k, c] = load_of_chip(ring.rate, Loads(busy, totals), k, c, streamed)
            period = max(period, loads[k, c])
    for k in range(3):
        period = max(period, load_of_root(ring.root_rate, totals, k, all_streamed))
    return period


@entry_njit
def periods_between(
    p: ProblemArrays, r: RuleArrays, partitions: Ints, begin: int, end: int, periods: Floats
) -> None:
    """Fills `periods[begin:end]` for those rows of `partitions[B, N]`."""
    loads = np.empty((5, p.num_chips))
    for row in range(begin, end):
        periods[row] = loads_of(p, r, partitions[row], loads)


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
        self.arrays = fast_model.FastModel.of(problem).arrays
        source, target = dependency_edges(problem)
        self.rules = RuleArrays(
            edge_source=np.ascontiguousarray(source, np.int32),
            edge_target=np.ascontiguousarray(target, np.int32),
            pinned_chip=problem.pinned_chip,
            ring=ring_of(problem),
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
        parts = max(min(usable_cores(), len(rows) // CHUNK), 1)
        bounds = np.linspace(0, len(rows), parts + 1).astype(int).tolist()

        def fill(part: tuple[int, int]) -> None:
            periods_between(self.arrays, self.rules, rows, *part, periods)

        side_by_side(fill, list(pairwise(bounds)))
        return periods
