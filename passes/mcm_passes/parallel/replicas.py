"""How many pipelines of a model a package runs side by side.

A pipeline stops gaining from more chips once its heaviest unit, its transfers, or the launches of
its kernels set the pace, whereas two pipelines of half the chips answer twice as often. What it
costs is memory: each pipeline holds all weights. (Data parallelism in Auto-MAP's terms, for
inference: nothing has to be reduced between the replicas.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mcm_compiler.partition import Budget, LowerBound, PartitionProblem
from mcm_compiler.replication import Replication
from mcm_compiler.target import PackageLimits
from mcm_compiler.units import count_text
from mcm_passes.partitioning.bounds import lower_bound, total_work
from mcm_passes.partitioning.contiguous_dp import ContiguousDp
from mcm_passes.partitioning.fast_periods import FastPeriods
from mcm_passes.partitioning.infeasibility import impossible

LEAST_GAIN = 0.01
"""Share of throughput that more pipelines must add: each of them costs the memory of all weights,
and fewer are easier to feed."""

MAX_BOUND_UNITS = 4000
"""Units up to which every number of pipelines gets a bound of its own; above, all of them share
that of the total work."""


def equal_chips(limits: PackageLimits) -> bool:
    """Whether one partition serves any consecutive chips of the package."""
    return (
        limits.host_io == "any"
        and len(set(limits.sram_bytes)) <= 1
        and len(set(limits.chip_speed)) <= 1
    )


def choose_replicas(problem: PartitionProblem) -> Replication:
    """The number of pipelines with the most throughput under the fast model.

    Every number is given the chips that an equal share leaves it, and the partition that `dp`
    finds for them. Of numbers within `LEAST_GAIN` of the best the smallest is taken.

    Args:
        problem: on all chips that may be used, which are equal.
    """
    chips = problem.num_chips
    work_s = total_work(problem).seconds
    one_s = _period_s(problem)
    considered: list[tuple[int, int, float | None]] = [(1, chips, one_s)]
    # No number of pipelines does more work per second than all chips together.
    if one_s is None or one_s > work_s * (1.0 + LEAST_GAIN):
        for count, each in _shares(problem):
            found_s = _period_s(_on(problem, each))
            considered.append((count, each, None if found_s is None else found_s / count))
    known = [(seconds, count, each) for count, each, seconds in considered if seconds is not None]
    if not known:
        return Replication(1, chips, None, tuple(considered))
    fastest_s = min(known)[0]
    count, each = next(
        (count, each) for seconds, count, each in known if seconds <= fastest_s * (1.0 + LEAST_GAIN)
    )
    return Replication(count, each, _others(problem, count), tuple(considered))


def given_replicas(problem: PartitionProblem, count: int) -> Replication:
    """So many pipelines, with the bound of that number alone."""
    return Replication(count, problem.num_chips // count)


def _shares(problem: PartitionProblem) -> Iterator[tuple[int, int]]:
    """Numbers of pipelines from 2 on, and the chips of each, where nothing rules them out.

    Of the numbers that leave each the same chips only the largest counts.
    """
    chips = problem.num_chips
    for each in sorted({chips // count for count in range(2, chips + 1)}, reverse=True):
        if not impossible(_on(problem, each)):
            yield chips // each, each


def _on(problem: PartitionProblem, chips: int) -> PartitionProblem:
    return replace(problem, limits=problem.limits.first(chips))


def _period_s(problem: PartitionProblem) -> float | None:
    if impossible(problem):
        return None
    found = ContiguousDp().solve(problem, FastPeriods(problem), np.random.default_rng(0), Budget())
    return None if found.chip_of is None else FastPeriods(problem)(found.chip_of)


def _others(problem: PartitionProblem, chosen: int) -> LowerBound | None:
    """The best that any other number of pipelines can come to, per inference."""
    best: LowerBound | None = None
    for count, each in ((1, problem.num_chips), *_shares(problem)):
        if count == chosen:
            continue
        shared = _on(problem, each)
        small = problem.num_units <= MAX_BOUND_UNITS
        bound = lower_bound(shared) if small else total_work(shared)
        if best is None or bound.seconds / count < best.seconds:
            argument = f"{count_text(count, 'pipeline')} instead: {bound.argument}"
            best = replace(bound, seconds=bound.seconds / count, argument=argument)
    return best
