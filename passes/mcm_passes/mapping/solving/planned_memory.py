"""The dynamic constraint: partitions whose memory plan fits, not only its estimate.

MCM, Eq. 5: whether a partition fits is known for certain only once its memory is planned. Where
the plan of a chip overflows although the roofline's estimate fitted, that chip's limit is made
smaller by as much as the estimate was wrong, and the problem is solved again (our choice). Where
estimates leave nothing, the planner is asked about partitions that need less than they say.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.partition import Budget, Ints, LowerBound, Partition, PartitionProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.models import evaluate, mapping_of
from mcm_passes.mapping.solving.solve import with_sram_limits

MOST_PLACEMENTS = 4096
"""Placements that are planned; as many take about a second."""


@dataclass(frozen=True, eq=False)
class Planned:
    """Plans of all placements of a problem.

    Attributes:
        chip_of: `[N]`, the one with the shortest period among those whose plans fit, or None.
        placements: that the dependencies allow.
        least_bytes: what the fullest chip of the least demanding one plans.
        limit_bytes: what that chip has.
    """

    chip_of: Ints | None
    placements: int
    least_bytes: int
    limit_bytes: int


def plan_all(problem: PartitionProblem, evaluator: BatchEvaluator) -> Planned | None:
    """Plans every placement that the dependencies allow; None where these are too many.

    None as well on machines whose family does not list them.

    Args:
        problem: what to place.
        evaluator: plans memory; its word on the rules counts as well.
    """
    rows = mapping_of(problem).placements(problem, MOST_PLACEMENTS)
    if rows is None:
        return None
    results = evaluator.evaluate(rows)
    pinned = (problem.pinned_chip < 0) | (rows == problem.pinned_chip) | problem.clonable
    allowed = (results.kind != ResultKind.BREAKS_RULE) & pinned.all(axis=1)
    if not allowed.any():
        return None
    runs = np.flatnonzero(allowed & (results.kind == ResultKind.RUNS))
    limits = np.array(problem.limits.sram_bytes, np.int64)
    over = np.where(allowed[:, None], results.high_water_bytes - limits, np.iinfo(np.int64).max)
    row = int(over.max(axis=1).argmin())
    chip = int(over[row].argmax())
    periods = [evaluate(problem, rows[k]).period_s for k in runs.tolist()]
    return Planned(
        rows[runs[int(np.argmin(periods))]] if periods else None,
        int(allowed.sum()),
        int(results.high_water_bytes[row, chip]),
        int(limits[chip]),
    )


def nothing_fits(planned: Planned) -> Diagnostic:
    """The diagnostic where no placement's plan fits."""
    return Diagnostic(
        "MCM-P030",
        f"no partition fits: the memory of all {count_text(planned.placements, 'placement')} that "
        "the rules allow was planned, and the least demanding one needs "
        f"{bytes_text(planned.least_bytes)} on a chip of {bytes_text(planned.limit_bytes)}",
        at="option target",
    )


ROUNDS = 4
"""Times that limits are tightened at most."""

TIGHT = 0.9
"""Share of a chip's memory above which an estimate is not trusted."""

LARGE = 8_000
"""Units times chips from which on searches for any partition at all take minutes off rings."""

FASTER = 5e-4
"""Least share of the period that a partition without the allowance has to gain."""


GivesAnswer = Callable[[PartitionProblem, Ints, LowerBound | None], Partition]
"""Makes an answer of a partition whose memory plan is known to fit, with the bound, or with that of
the problem where it is None; MCM-P009 for one that breaks a rule."""


def solve_with_plans(
    problem: PartitionProblem,
    solve: Callable[[PartitionProblem, Budget], Partition],
    budget: Budget,
    *,
    persist: bool = True,
    given: GivesAnswer | None = None,
) -> Partition:
    """The partition that `solve` finds, under limits that the memory plans keep.

    Memory is estimated with an allowance for gaps at first. Where nothing is found, or nothing
    whose plans fit, it is estimated without, and then as what every plan needs at least. From there
    on each partition is planned by the target before it is taken. The same happens where the
    partition fills a chip, and the family finds something faster without the allowance. Of a small
    problem all placements can be planned in the end.

    Args:
        problem: what to place.
        solve: solves a problem like it, with limits of memory that are smaller, within a budget.
        budget: for all rounds together as far as seconds are concerned, for each of them in all
            else. Its evaluator plans memory and is asked only where an estimate is close to its
            limit; without one the estimates are trusted.
        persist: whether to go on below the first estimate.
        given: makes an answer of a partition whose plan fits; None to plan none of a small problem
            that `solve` does not find.

    Returns:
        A partition of `problem` with a bound that holds for it. Where no round finds one whose
        plans fit, the first one, so that lowering can say what overflows.

    Raises:
        CompileError: as `solve` does for the problem with the least need, or MCM-P030 where no
            placement of a small problem has a plan that fits.
    """
    start, evaluator = time.monotonic(), budget.evaluator
    fallback: Partition | None = None
    unfound: CompileError | None = None
    ways = _ways(problem) if persist else [problem]
    # No search finds another placement than the only one, which is planned below.
    plans_all = persist and given is not None and evaluator is not None
    ways = [] if plans_all and _only_estimate_refuses(problem) else ways
    if searches_cost_minutes(problem):
        ways = _from_first_found(ways)
    for way in ways:
        left = budget if way is problem else _left_of(budget, time.monotonic() - start)
        try:
            found, fits = _within_plans(way, solve, left, trusted=way is problem)
        except CompileError as error:
            if {d.code for d in error.diagnostics} != {"MCM-P008"}:
                if fallback is None:
                    raise
                break
            unfound = error
            continue
        if way is not problem:
            found = _certified(problem, found, found.bound)
        elif fits and evaluator is not None:
            left = _left_of(budget, time.monotonic() - start)
            others = [other for other in ways if other is not problem]
            found = _without_gaps(problem, others, found, solve, left)
        if fits or evaluator is None:
            return found
        fallback = fallback or found
    planned = None
    if persist and given is not None and evaluator is not None:
        planned = plan_all(problem, evaluator)
        if planned is not None and planned.chip_of is not None:
            return given(problem, planned.chip_of, None if fallback is None else fallback.bound)
    if fallback is not None:
        return fallback
    if planned is not None:
        raise CompileError(nothing_fits(planned))
    assert unfound is not None
    raise unfound


def _without_gaps(
    problem: PartitionProblem,
    ways: list[PartitionProblem],
    found: Partition,
    solve: Callable[[PartitionProblem, Budget], Partition],
    budget: Budget,
) -> Partition:
    """`found`, or a faster partition that the estimate refuses and the planner does not."""
    if not _near_limits(problem, found):
        return found
    for way in ways:
        first = mapping_of(way).first(way, dataclasses.replace(budget, evaluator=None))
        limit_s = found.period_s * (1.0 - FASTER)
        if first.chip_of is None or evaluate(way, first.chip_of).period_s >= limit_s:
            continue
        try:
            other, fits = _within_plans(way, solve, budget, trusted=False)
        except CompileError:
            continue
        if fits and other.period_s < limit_s:
            found = _certified(problem, other, other.bound)
    return found


def _only_estimate_refuses(problem: PartitionProblem) -> bool:
    """True for one chip that has too little memory by the estimate, and breaks no other rule."""
    if problem.num_chips > 1:
        return False
    placed = evaluate(problem, np.zeros(problem.num_units, np.int32))
    return {one.rule for one in placed.violations} == {"memory"}


def _near_limits(problem: PartitionProblem, found: Partition) -> bool:
    """True if the estimate of some chip is close to its limit."""
    limits = np.array(problem.limits.sram_bytes, np.int64)
    return bool((evaluate(problem, found.chip_of).memory_bytes > TIGHT * limits).any())


def _ways(problem: PartitionProblem) -> list[PartitionProblem]:
    """The problem with less and less allowance for gaps, at last with queues."""
    packed = dataclasses.replace(problem.limits, activation_packing=1.0)
    ways, least = [problem, problem.within(packed)], problem.at_need()
    if not problem.has_queues:
        return [*ways, least]
    counts = (dataclasses.replace(least.limits, channel_slots=n) for n in (packed.channel_slots, 1))
    return [*ways, *map(least.within, counts)]


def searches_cost_minutes(problem: PartitionProblem) -> bool:
    """True if searches for any partition at all take minutes: off rings, of many units."""
    return not problem.on_ring and problem.num_units * problem.num_chips > LARGE


def _from_first_found(ways: list[PartitionProblem]) -> list[PartitionProblem]:
    """The ways in turn, from the first of which the family finds a partition quickly."""
    for k, way in enumerate(ways):
        if mapping_of(way).first(way, Budget()).chip_of is not None:
            return ways[k:] + ways[:k]
    return ways


def _within_plans(
    problem: PartitionProblem,
    solve: Callable[[PartitionProblem, Budget], Partition],
    budget: Budget,
    *,
    trusted: bool,
) -> tuple[Partition, bool]:
    """A partition, and whether its plans fit; where none's do, the first that was found.

    Args:
        problem: what to place.
        solve: as in `solve_with_plans`.
        budget: likewise.
        trusted: whether estimates far below the limits are taken for plans.
    """
    start, evaluator = time.monotonic(), budget.evaluator
    first = found = solve(problem, budget)
    if evaluator is None:
        return first, True
    limits = np.array(problem.limits.sram_bytes, np.int64)
    tightened = limits.copy()
    for _ in range(ROUNDS):
        estimate = evaluate(problem, found.chip_of).memory_bytes
        if trusted and not (estimate > TIGHT * limits).any():
            return found, True
        results = evaluator.evaluate(found.chip_of[None])
        if results.kind[0] != ResultKind.OVERFLOWS:
            return found, True
        plan = results.high_water_bytes[0]
        over = plan > limits
        scaled = np.minimum(limits * (estimate / np.maximum(plan, 1)), estimate - (plan - limits))
        tightened[over] = np.minimum(tightened, np.maximum(scaled, 0.0).astype(np.int64))[over]
        try:
            found = solve(
                with_sram_limits(problem, tightened.tolist()),
                _left_of(budget, time.monotonic() - start),
            )
        except CompileError:
            # Under limits that are too small this proves nothing.
            return first, False
        found = _certified(problem, found, first.bound)
    kind = evaluator.evaluate(found.chip_of[None]).kind[0]
    return (first, False) if kind == ResultKind.OVERFLOWS else (found, True)


def first_planned(problem: PartitionProblem, evaluator: BatchEvaluator | None) -> Partition | None:
    """The partition that the family finds quickly, with a memory plan that fits; no bound.

    Args:
        problem: what to place.
        evaluator: plans memory; without one the least need of any plan is trusted.
    """
    budget = Budget(evaluator=evaluator)
    try:
        found = solve_with_plans(problem, _first_partition, budget, given=_first_answer)
    except CompileError:
        return None
    return None if overflows(problem, found, budget) else found


def _first_partition(problem: PartitionProblem, budget: Budget) -> Partition:
    """The partition that is found quickly.

    Raises:
        CompileError: MCM-P008 if there is none.
    """
    found = mapping_of(problem).first(problem, budget)
    if found.chip_of is None:
        raise CompileError.of("MCM-P008", found.reason)
    return _first_answer(problem, found.chip_of, None)


def _first_answer(
    problem: PartitionProblem, chip_of: Ints, bound: LowerBound | None, /
) -> Partition:
    period_s = evaluate(problem, chip_of).period_s
    bound = bound or LowerBound(0.0, "none is sought")
    return Partition(chip_of, period_s, bound, "first")


def overflows(problem: PartitionProblem, found: Partition, budget: Budget) -> bool:
    """Return whether a chip's memory plan is known not to fit; low estimates are trusted."""
    if budget.evaluator is None:
        return False
    if not _near_limits(problem, found):
        return False
    return bool(budget.evaluator.evaluate(found.chip_of[None]).kind[0] == ResultKind.OVERFLOWS)


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
