"""The dynamic constraint: partitions whose memory plan fits, not only its estimate.

MCM, Eq. 5: whether a partition fits is known for certain only once its memory is planned. Where
the plan of a chip overflows although the fast model's estimate fitted, that chip's limit is made
smaller by as much as the estimate was wrong, and the problem is solved again (our choice).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.judging import Verdict
from mcm_compiler.partition import Budget, LowerBound, Partition, PartitionProblem
from mcm_passes.partitioning.fast_model import evaluate
from mcm_passes.partitioning.solve import with_sram_limits

ROUNDS = 4
"""Times that limits are tightened at most."""

TIGHT = 0.9
"""Share of a chip's memory above which an estimate is not trusted."""


def solve_with_plans(
    problem: PartitionProblem,
    solve: Callable[[PartitionProblem, Budget], Partition],
    budget: Budget,
) -> Partition:
    """The partition that `solve` finds, under limits that the memory plans keep.

    Args:
        problem: what to place.
        solve: solves a problem like it, with limits of memory that are smaller, within a budget.
        budget: for all rounds together as far as seconds are concerned, for each of them in all
            else. Its judge plans memory and is asked only where an estimate is close to its
            limit; without one the estimates are trusted.

    Returns:
        A partition of `problem` with a bound that holds for it. Where no round finds one whose
        plans fit, the first one, so that lowering can tell what overflows.

    Raises:
        CompileError: as `solve` does for the problem itself.
    """
    start, judge = time.monotonic(), budget.judge
    first = found = solve(problem, budget)
    if judge is None:
        return first
    limits = np.array(problem.limits.sram_bytes, np.int64)
    tightened = limits.copy()
    for _ in range(ROUNDS):
        estimate = evaluate(problem, found.chip_of).memory_bytes
        if not (estimate > TIGHT * limits).any():
            return found
        verdicts = judge.judge(found.chip_of[None])
        if verdicts.verdict[0] != Verdict.OVERFLOWS:
            return found
        plan = verdicts.high_water_bytes[0]
        over = plan > limits
        scaled = np.minimum(limits * (estimate / np.maximum(plan, 1)), estimate - (plan - limits))
        tightened[over] = np.minimum(tightened, np.maximum(scaled, 0.0).astype(np.int64))[over]
        try:
            found = solve(
                with_sram_limits(problem, tightened.tolist()),
                _left_of(budget, time.monotonic() - start),
            )
        except CompileError:
            return first
        found = _certified(problem, found, first.bound)
    verdict = judge.judge(found.chip_of[None]).verdict[0]
    return first if verdict == Verdict.OVERFLOWS else found


def overflows(problem: PartitionProblem, found: Partition, budget: Budget) -> bool:
    """Whether the memory plan of some chip is known not to fit; estimates far below are trusted."""
    if budget.judge is None:
        return False
    limits = np.array(problem.limits.sram_bytes, np.int64)
    if not (evaluate(problem, found.chip_of).memory_bytes > TIGHT * limits).any():
        return False
    return bool(budget.judge.judge(found.chip_of[None]).verdict[0] == Verdict.OVERFLOWS)


def _left_of(budget: Budget, spent_s: float) -> Budget:
    """The budget once some seconds of it are over."""
    if budget.seconds is None:
        return budget
    return dataclasses.replace(budget, seconds=max(budget.seconds - spent_s, 0.0))


def _certified(problem: PartitionProblem, found: Partition, bound: LowerBound) -> Partition:
    """The partition with its period and a bound under the limits of `problem` itself."""
    period_s = evaluate(problem, found.chip_of).period_s
    bound = dataclasses.replace(bound, seconds=min(bound.seconds, period_s))
    return dataclasses.replace(found, period_s=period_s, bound=bound)
