"""Sequences in flight: the states that chips hold of them, and the waits of too few.

A step of a sequence starts once the step before has ended, so that N sequences complete at most N
steps in the latency of one. Their states take memory that weights may need as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.mapping import KnowsObjectives
from mcm_compiler.contracts.partition import Budget, Ints, Outcome, PartitionProblem
from mcm_compiler.graph.states import kept_bytes
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.machines.package_limits import PackageLimits
from mcm_compiler.options import CompileOptions
from mcm_passes.mapping.bounds.bounds import lower_bound, total_work
from mcm_passes.mapping.models import evaluate, mapping_of, periods_of
from mcm_passes.mapping.problem.state_units import kept_states

ROOM = 0.005
"""Distance between a partition and its bound below which no better one is sought."""


@dataclass(frozen=True, eq=False)
class InFlight:
    """Sequences whose states the chips of a pipeline hold.

    Attributes:
        each_bytes: `[W]`, what a further sequence takes with each weight that is a state; else 0.
        held: sequences that the states of the problem are of.
        fixed: whether these are all, as asked for.
    """

    each_bytes: Longs
    held: int = 1
    fixed: bool = False

    def wait_s(
        self, problem: PartitionProblem, sequences: int, chip_of: Ints | None = None
    ) -> float:
        """Seconds between steps of a pipeline with N sequences, whatever its period is."""
        return latency_s(self.holding(problem, sequences), chip_of) / sequences

    def holding(self, problem: PartitionProblem, sequences: int) -> PartitionProblem:
        """The problem of a pipeline with memory for N sequences on each chip."""
        if sequences == self.held:
            return problem
        more = (sequences - self.held) * self.each_bytes
        return problem.storing(problem.weight_bytes + more)

    def most(self, problem: PartitionProblem, period_s: float) -> int:
        """Sequences that keep a pipeline of some period busy, as far as all chips have memory."""
        if self.fixed:
            return self.held
        streams, each = problem.limits.stream_bytes_per_s > 0.0, int(self.each_bytes.sum())
        taken = self.held * each if streams else int(problem.weight_bytes.sum())
        free = max(sum(problem.limits.sram_bytes) - taken, 0)
        most = min(self.held + free // max(each, 1), MOST_SEQUENCES)
        full = latency_s(self.holding(problem, most) if streams else problem)
        return max(min(needed_sequences(full, period_s), most), 1)

    def most_bytes(self, problem: PartitionProblem) -> int:
        """Bytes that the largest cache takes, of the sequences that keep the package busy."""
        largest = int(self.each_bytes.max())
        return largest * self.most(problem, total_work(problem).seconds)

    def first(self, problem: PartitionProblem, period_s: float) -> Held:
        """A first partition that serves the most steps, with the sequences that it has memory for.

        More sequences wait less for each other, and leave less memory for a short period.

        Args:
            problem: of a pipeline.
            period_s: that no partition of it undercuts.
        """
        low, high = self.held - 1, max(self.most(problem, period_s), self.held)
        best, served_s, least_s, count = None, inf, None, high
        while low < high:
            held = self.holding(problem, count)
            found = mapping_of(problem).first(held, Budget())
            wait_s = self.wait_s(problem, count, found.chip_of)
            own_s = inf if found.chip_of is None else periods_of(held)(found.chip_of)
            if max(own_s, wait_s) < served_s or (best is None and count == self.held):
                best, served_s = Held(held, found, count), max(own_s, wait_s)
            if count == self.held:
                least_s = own_s
            if served_s <= max(period_s, least_s or 0.0) * (1.0 + ROOM):
                break
            low, high = (max(low, count), high) if own_s <= wait_s else (low, count - 1)
            # What is as fast as with the fewest is not for want of memory.
            first = best is not None and least_s is None
            count = self.held if first else max((low + high + 1) // 2, self.held)
        assert best is not None, "there is one sequence at least"
        return best

    def further(self, latency_s: float, period_s: float) -> int | None:
        """Sequences that a period needs in addition to those of the problem; None if it has none.

        Args:
            latency_s: of a step.
            period_s: of a pipeline.
        """
        more = max(needed_sequences(latency_s, period_s) - self.held, 0)
        return None if self.fixed and more else more

    def reserved(self, problem: PartitionProblem, known: Sequence[Ints]) -> int:
        """Sequences that a search leaves memory for: of the known partition that has most.

        Args:
            problem: of a pipeline.
            known: partitions of it; without any, what seems to fit is searched.
        """
        bound_s = lower_bound(problem).seconds
        if not known:
            return self.first(problem, bound_s).sequences
        most = self.most(problem, bound_s)
        return max(self._fitting(problem, chip_of, most) for chip_of in known)

    def _fitting(self, problem: PartitionProblem, chip_of: Ints, most: int) -> int:
        low, high = self.held, max(most, self.held)
        while low < high:
            middle = (low + high + 1) // 2
            if evaluate(self.holding(problem, middle), chip_of).valid:
                low = middle
            else:
                high = middle - 1
        return low


class Held(NamedTuple):
    """A first partition of a pipeline with states of sequences.

    Attributes:
        problem: with memory for them.
        found: what the family finds for it quickly.
        sequences: how many.
    """

    problem: PartitionProblem
    found: Outcome
    sequences: int


RESERVE = 0.05
"""Share of sequences beyond those that are needed by estimates: transfers are left out of them."""


def in_flight(
    model: ir.Model, problem: PartitionProblem, cost_model: CostModel, options: CompileOptions
) -> InFlight | None:
    """The sequences of a model; None where no state stays on a chip.

    Args:
        model: that the problem is of.
        problem: of one inference.
        cost_model: of the target.
        options: of the compile; nothing is searched for an assignment.
    """
    kept = kept_states(model, problem)
    if not kept.pairs or options.assignment is not None:
        return None
    pasts = {value.name: value for value in model.graph.inputs}
    presents = {value.name: value for value in model.graph.outputs}
    row = {name: w for w, name in enumerate(problem.weight_names)}
    unit = problem.limits.buffer_alignment_bytes
    each = np.zeros(problem.weight_bytes.size, np.int64)
    for pair in kept.pairs:
        past, present = pasts[pair.past], presents[pair.present]
        size = kept_bytes(past, present, cost_model.storage_bytes(present))
        each[row[pair.past]] = -(-size // unit) * unit
    return InFlight(each, kept.sequences, options.sequences is not None)


def latency_s(problem: PartitionProblem, chip_of: Ints | None = None) -> float:
    """Seconds of a step by itself, of a partition where the family knows that.

    Else an estimate: all work, and the way along all chips. Chips that stream weights do so one
    after another: each of them until the next has its inputs.
    """
    work_s = float(problem.compute_s[~problem.clonable].sum() / problem.chip_speed.mean())
    mapping = mapping_of(problem)
    if chip_of is not None and not problem.streams and isinstance(mapping, KnowsObjectives):
        return mapping.latency_s(problem, chip_of)
    limits, streamed_s = problem.limits, 0.0
    if problem.streams:
        beyond = int(problem.weight_bytes.sum()) - sum(limits.sram_bytes)
        streamed_s = max(beyond, 0) / limits.stream_bytes_per_s
    return max(work_s, streamed_s) + way_s(limits, min(problem.num_chips, problem.num_units))


def way_s(limits: PackageLimits, chips: int) -> float:
    """Delays of the links along the first chips, and of the host's."""
    return sum(limits.latencies_s[: chips - 1]) + 2 * limits.host_latency_s


def needed_sequences(latency_s: float, period_s: float) -> int:
    """Sequences that keep a pipeline busy."""
    if period_s <= 0.0:
        return MOST_SEQUENCES
    return math.ceil(latency_s / period_s * (1.0 + RESERVE))
