"""The partition of the chosen number of replicas, and of the next if that may be faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.levels import Level
from mcm_compiler.contracts.partition import (
    Budget,
    Ints,
    Partition,
    PartitionProblem,
    SearchMonitor,
)
from mcm_compiler.contracts.replication import PipelineCount, Replication
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.pipeline.passes import PassContext
from mcm_compiler.text.units import seconds_text
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.models import evaluate
from mcm_passes.mapping.solving import planned_memory
from mcm_passes.parallelism.replicas.in_flight import InFlight
from mcm_passes.parallelism.replicas.replicas import on_share, share_evaluator

CLOSE = 0.06
"""Share by which a number may be slower than the fastest with its first partition and still get a
full search. A search gains about as much on top of exact search over ideals."""

NOT_FOUND = frozenset({"MCM-P008"})
"""Codes of a search that found nothing and proved nothing."""

LEAST_PROMISE = 0.01
"""Share by which it could win at best, if simulator and analytic model differ as for its first
partition."""


@dataclass(frozen=True)
class Budgets:
    """Limits for the searches of one compile.

    Attributes:
        problem: of the whole package.
        context: of the compile; its options limit seconds and samples.
        level: limits whatever the options do not.
        text: text form of the strategy.
        evaluator: the simulator for searches of `problem`, if there is one.
        start_s: since when the seconds count.
    """

    problem: PartitionProblem
    context: PassContext
    level: Level
    text: str
    evaluator: BatchEvaluator | None = None
    start_s: float = field(default_factory=time.monotonic)

    def of(self, shared: PartitionProblem, pipelines: int, **more: Any) -> Budget:
        """The rest for the problem of one of some pipelines, with other fields as given."""
        options, evaluator, seconds = self.context.options, self.evaluator, None
        if options.budget_s is not None:
            seconds = max(options.budget_s - (time.monotonic() - self.start_s), 0.0)
        if evaluator is not None and shared is not self.problem:
            evaluator = share_evaluator(evaluator, shared, pipelines)
        return Budget(
            evaluations=options.samples or self.level.evaluations(shared.num_units),
            seconds=seconds,
            effort_s=self.level.effort_s,
            evaluator=evaluator,
            monitor=SearchMonitor(self._tell),
            **more,
        )

    def _tell(self, _: Any, value: float) -> None:
        self.context.progress(f"partition: {self.text} found {seconds_text(value)}")


@dataclass(frozen=True, eq=False)
class Solved:
    """A partition of one pipeline.

    Attributes:
        partition: with its certificate.
        fits: whether its memory plan is not known to overflow.
        simulated_s: seconds between inferences of the pipeline on the simulator, or by the
            analytic model where there is no simulator; a function, since few callers need it.
    """

    partition: Partition
    fits: bool
    simulated_s: Callable[[], float]


@dataclass(frozen=True, eq=False)
class Share:
    """Request for a partition of one of several pipelines, no worse than any that is known.

    Attributes:
        problem: of the pipeline.
        pipelines: that stand side by side.
        persist: whether to go on where estimates of memory leave nothing.
        known: partitions.
        searches: whether to search; without, the answer is a known one.
    """

    problem: PartitionProblem
    pipelines: int
    persist: bool = False
    known: tuple[Ints, ...] = ()
    searches: bool = True


SolveShare = Callable[[Share], Solved]
"""Finds the partition; raises a `CompileError` where nothing is found."""


@dataclass(frozen=True, eq=False)
class Pipelines:
    """Pipelines side by side.

    Attributes:
        problem: of one of them.
        partition: of one of them.
        replication: how many there are.
    """

    problem: PartitionProblem
    partition: Partition
    replication: Replication


def solved(
    problem: PartitionProblem,
    solve: Callable[[PartitionProblem, Budget], Partition],
    budget: Budget,
    *,
    persist: bool,
    given: planned_memory.GivesAnswer | None,
    alone: bool,
    simulated: bool = True,
    searches: bool = True,
) -> Solved:
    """The partition that `solve` finds for one pipeline, or one that is known and faster.

    Where it finds nothing, and nothing is known, what the family finds quickly is the answer.

    Args:
        problem: of the pipeline.
        solve: as in `solve_with_plans`.
        budget: likewise, with the partitions that are known.
        persist: as in `solve_with_plans`.
        given: as in `solve_with_plans`; None where `solve` finds what the user assigned.
        alone: whether `solve` alone shall answer, since the user named the strategy.
        simulated: whether the simulator compares, where there is one, or the analytic model.
        searches: whether to ask `solve`; without, something is known.

    Raises:
        CompileError: as `solve` does, where nothing else is found either.
    """
    best: Solved | None = None
    unfound: CompileError | None = None
    known = () if given is None or (alone and searches) else budget.known
    try:
        if searches:
            found = planned_memory.solve_with_plans(
                problem, solve, budget, persist=persist, given=given
            )
            best = _solved(problem, found, budget, simulated=simulated)
    except CompileError as error:
        unfound = error
        if not (alone or known) and {d.code for d in error.diagnostics} <= NOT_FOUND:
            first = planned_memory.first_planned(problem, budget.evaluator)
            known = () if first is None else (first.chip_of,)
    for chip_of in known:
        assert given is not None, "nothing is known of an assignment"
        bound = None if best is None else best.partition.bound
        other = _solved(problem, given(problem, chip_of, bound), budget, simulated=simulated)
        if not other.fits and (best is not None or unfound is not None):
            continue
        if best is None or not best.fits or other.simulated_s() < best.simulated_s():
            best = other
    if best is None:
        assert unfound is not None
        raise unfound
    return best


def _solved(
    problem: PartitionProblem, partition: Partition, budget: Budget, *, simulated: bool
) -> Solved:
    @cache
    def simulated_s() -> float:
        if budget.evaluator is None or not simulated:
            return partition.period_s
        results = budget.evaluator.evaluate(partition.chip_of[None])
        runs = results.kind[0] == ResultKind.RUNS
        return float(results.period_s[0]) if runs else float("inf")

    return Solved(partition, not planned_memory.overflows(problem, partition, budget), simulated_s)


def with_sequences(solve: SolveShare, flight: InFlight | None) -> SolveShare:
    """The same with memory for sequences, whose steps may have to wait for each other.

    Bounds are on partitions that have memory for those of the problem alone.
    """
    if flight is None:
        return solve

    def solve_share(share: Share) -> Solved:
        problem = share.problem
        sequences = flight.reserved(problem, share.known)
        while True:
            held = flight.holding(problem, sequences)
            try:
                found = solve(replace(share, problem=held))
                break
            except CompileError:
                if held is problem:
                    raise
                sequences = flight.held

        def served_s(one: Solved) -> float:
            return max(one.simulated_s(), flight.wait_s(problem, sequences, one.partition.chip_of))

        if share.searches and served_s(found) > found.simulated_s():
            # Searches do not see what a step carries from chip to chip.
            alone = [
                solve(replace(share, problem=held, known=(one,), searches=False))
                for one in share.known
            ]
            found = min((found, *(one for one in alone if one.fits)), key=served_s)
        partition, own_s = found.partition, found.simulated_s
        if held is not problem:
            # Where weights are streamed, states make periods longer.
            period_s = evaluate(problem, partition.chip_of).period_s
            bound = lower_bound(problem)
            bound = replace(bound, seconds=min(bound.seconds, period_s))
            partition = replace(partition, period_s=period_s, bound=bound)
        wait_s = flight.wait_s(problem, sequences, partition.chip_of)
        return Solved(partition, found.fits, lambda: max(own_s(), wait_s))

    return solve_share


def solve_replicas(
    problem: PartitionProblem,
    chosen: Replication,
    solve: SolveShare,
    further: int,
    starts: Sequence[tuple[int, Ints]] = (),
) -> Pipelines:
    """The pipelines with the most throughput.

    The number that was chosen is solved first. Where nothing that runs is found for it, smaller
    ones follow. Then come the numbers that may still be faster by their first partition and their
    bound.

    Args:
        problem: on all chips.
        chosen: the number that seems best, with the others that were looked at.
        solve: solves the problem of one pipeline.
        further: how many other numbers may be solved besides one that runs.
        starts: placements on other targets, each with its number of replicas: what is found is no
            slower than with any of them.

    Raises:
        CompileError: as `solve` does, where it finds nothing for any number.
    """
    started = _fastest_start(problem, chosen, starts, solve)
    choices = (chosen, *chosen.fallbacks())
    try:
        best, tried = _first_that_runs(problem, choices, solve)
    except CompileError:
        if started is None:
            raise
        return started.pipelines
    best = _searched_further(problem, best, tried, solve, further if chosen.considered else 0)
    if started is not None and started.seconds() < best.seconds():
        best = started
    return best.pipelines


def _searched_further(
    problem: PartitionProblem, best: _Candidate, tried: set[int], solve: SolveShare, further: int
) -> _Candidate:
    """The best pipelines after some other numbers that may win were solved as well."""
    chosen = best.pipelines.replication
    if not further:
        return best
    for one in _promising(chosen, tried):
        if not further:
            break
        if not _may_win(one, best.seconds()):
            continue
        further -= 1
        try:
            found = _tried(problem, chosen.with_count(one), solve, known=one.rows)
        except CompileError:
            continue
        if found.solved.fits and found.seconds() < best.seconds():
            best = found
    return best


def _fastest_start(
    problem: PartitionProblem,
    chosen: Replication,
    starts: Sequence[tuple[int, Ints]],
    solve: SolveShare,
) -> _Candidate | None:
    """The fastest of placements on other targets; None where none of them runs here."""
    found: list[_Candidate] = []
    for count, chip_of in starts:
        choice = replace(chosen, replicas=count, chips_each=problem.num_chips // count)
        with suppress(CompileError):
            found.append(_tried(problem, choice, solve, known=(chip_of,), searches=False))
    return min((one for one in found if one.solved.fits), key=_Candidate.seconds, default=None)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Pipelines that run, with seconds per inference of the package."""

    pipelines: Pipelines
    solved: Solved

    def seconds(self) -> float:
        """On the simulator, asked once."""
        return self.solved.simulated_s() / self.pipelines.replication.replicas


def _tried(
    problem: PartitionProblem, replication: Replication, solve: SolveShare, **asked: Any
) -> _Candidate:
    """The pipelines of a choice; `asked` are other fields of `Share`."""
    count = replication.replicas
    shared = on_share(problem, replication.chips_each, count)
    found = solve(Share(shared, count, **asked))
    return _Candidate(Pipelines(shared, found.partition, replication), found)


def _first_that_runs(
    problem: PartitionProblem, choices: tuple[Replication, ...], solve: SolveShare
) -> tuple[_Candidate, set[int]]:
    """The first of the choices that runs, or the last; and all numbers that were tried."""
    tried: set[int] = set()
    for replication in choices:
        last = replication is choices[-1]
        tried.add(replication.replicas)
        known = replication.known
        persist = last or bool(known)
        try:
            found = _tried(problem, replication, solve, persist=persist, known=known)
        except CompileError:
            # More pipelines than memory was found for are no fault of the model.
            if last:
                raise
            continue
        if last or found.solved.fits:
            return found, tried
    raise AssertionError("there is always a last choice")


def _promising(replication: Replication, tried: set[int]) -> list[PipelineCount]:
    """Other numbers with a partition, fastest first."""
    rest = [one for one in replication.considered if one.replicas not in tried]
    known = [(one.served_s, one.replicas, one) for one in rest if one.served_s is not None]
    return [one for _, _, one in sorted(known, key=lambda row: row[:2])]


def _may_win(one: PipelineCount, best_s: float) -> bool:
    """Return whether a search may well find something faster than `best_s` per inference."""
    seconds, analytic_s, bound_s = one.served_s, one.analytic_s, one.bound_s
    if seconds is None or analytic_s is None or bound_s is None:
        return False
    promise_s = bound_s * seconds / analytic_s
    close = seconds <= best_s * (1.0 + CLOSE)
    return bool(np.isfinite(best_s)) and close and promise_s < best_s * (1.0 - LEAST_PROMISE)
