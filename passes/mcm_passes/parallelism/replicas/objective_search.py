"""How many pipelines stand side by side where not the plain period is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from mcm_compiler.contracts.objectives import Objective, ObjectiveFigures, ShareBound
from mcm_compiler.contracts.partition import LowerBound, Partition, PartitionProblem
from mcm_compiler.contracts.replication import Replication
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.text.units import count_text, rate_text
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.solving.objective_solve import with_share
from mcm_passes.parallelism.replicas.replica_search import Pipelines, Solved
from mcm_passes.parallelism.replicas.replicas import on_share

ROUNDING = 1e-9
"""Relative space for sums that are taken in another order."""

NO_ROOM = "no_room"
"""Proof of a number of replicas that no memory is left for."""


SolveFor = Callable[[PartitionProblem, int, Objective], Solved]
"""Solves the problem of one of this many pipelines for an objective.

Raises a `CompileError` where nothing is found.
"""


def solve_objective(
    problem: PartitionProblem, objective: Objective, numbers: tuple[int, ...], solve: SolveFor
) -> Pipelines:
    """The pipelines that meet an objective best.

    Args:
        problem: on all chips that may be used.
        objective: not the plain period.
        numbers: of pipelines that may be; the first is wanted where there is one alone.
        solve: solves the problem of one pipeline.

    Raises:
        CompileError: as `solve` does, MCM-P063 where no number of chips reaches a throughput.
    """
    if objective.kind == "chips":
        return _FewestChips(problem, objective, numbers, solve).find()
    if objective.aim == "max-latency":
        return _fastest(problem, objective, numbers, solve)
    return _of_one(problem, objective, numbers, solve)


def numbers_of_pipelines(
    problem: PartitionProblem, wanted: int | None, obstacle: str
) -> tuple[int, ...]:
    """The numbers that may be: the one that is wanted, or those that leave other shares each."""
    if wanted is not None:
        return (wanted,)
    if obstacle:
        return (1,)
    return tuple(count for count, _ in equal_shares(problem.num_chips, problem.machine))


def _of_one(
    problem: PartitionProblem, objective: Objective, numbers: tuple[int, ...], solve: SolveFor
) -> Pipelines:
    """Search one pipeline on as many chips as there are; then as many of it as fit.

    One pipeline on all chips does no worse than one on a share of them, so that its bound holds for
    every number.
    """
    fixed = numbers[0] if len(numbers) == 1 else 1
    each = problem.num_chips // fixed
    shared = on_share(problem, each, fixed)
    found = solve(shared, fixed, objective).partition
    assert found.figures is not None
    figures = with_share(found.figures, fixed, each)
    replicas = fixed
    if len(numbers) > 1 and not _shares_channels(problem):
        replicas = problem.num_chips // found.num_chips_used
        each = problem.num_chips // replicas
        shared = on_share(problem, each, replicas)
    return Pipelines(shared, replace(found, figures=figures), Replication(replicas, each))


def _shares_channels(problem: PartitionProblem) -> bool:
    """Return whether pipelines side by side would take a part of each other's channels."""
    limits = problem.limits
    return bool(limits.host_total_bytes_per_s or limits.stream_total_bytes_per_s)


def _fastest(
    problem: PartitionProblem, objective: Objective, numbers: tuple[int, ...], solve: SolveFor
) -> Pipelines:
    """The most throughput of all numbers of pipelines that answer in time."""
    rows: dict[int, ShareBound] = {}
    refused: CompileError | None = None
    for count in numbers:
        each = problem.num_chips // count
        shared = on_share(problem, each, count)
        faults = impossible(shared)
        if faults and (refused is None or count == 1):
            refused = CompileError(faults)
        rows[count] = _row(count, each, None if faults else lower_bound(shared))
    best: Pipelines | None = None
    searched = False
    for count in sorted(rows, key=lambda one: (rows[one].value / one, one)):
        row = rows[count]
        best_s = math.inf if best is None else _value(best)
        if row.value / count >= best_s * (1.0 - ROUNDING) and (best or row.proof == NO_ROOM):
            continue
        shared = on_share(problem, row.chips_each, count)
        try:
            solved = solve(shared, count, objective)
        except CompileError as error:
            # What is told is what most chips come to: there nothing is in the way but time.
            if not searched or count == 1:
                refused, searched = error, True
            if (proof := _ruled_out(error)) is not None:
                rows[count] = replace(row, value=math.inf, proof=proof)
            continue
        figures = solved.partition.figures
        assert figures is not None
        rows[count] = replace(figures.proven[0], replicas=count, chips_each=row.chips_each)
        candidate = Pipelines(
            shared,
            replace(solved.partition, figures=with_share(figures, count, row.chips_each)),
            Replication(count, row.chips_each),
        )
        if solved.fits and _value(candidate) < best_s:
            best = candidate
    if best is None:
        assert refused is not None
        raise refused
    return _with_rows(best, tuple(rows[count] for count in sorted(rows)))


def _row(count: int, each: int, bound: LowerBound | None) -> ShareBound:
    """Bound of a number of replicas; None where nothing has space."""
    if bound is None:
        return ShareBound(count, each, math.inf, NO_ROOM, "there is not room enough")
    return ShareBound(count, each, bound.seconds, bound.proof, bound.argument)


def _ruled_out(error: CompileError) -> str | None:
    """The proof that a number of replicas cannot answer in time; None where there is none."""
    codes = {d.code for d in error.diagnostics}
    if codes <= {"MCM-P016", "MCM-P062"} and all(
        "no placement answers" in d.message or d.code == "MCM-P016" for d in error.diagnostics
    ):
        return "label_chains"
    return None


def _value(found: Pipelines) -> float:
    figures = found.partition.figures
    return math.inf if figures is None else figures.value


def _with_rows(found: Pipelines, rows: tuple[ShareBound, ...]) -> Pipelines:
    """The pipelines with what is proven of all numbers."""
    figures = found.partition.figures
    assert figures is not None
    least = min(row.value / row.replicas for row in rows)
    figures = replace(figures, bound=min(least, figures.value), proven=rows)
    return replace(found, partition=replace(found.partition, figures=figures))


class _FewestChips:
    """The fewest chips, over all numbers of pipelines, that reach a throughput.

    R pipelines of K chips reach it where one of them has a period of R over the throughput.
    More chips never take longer, so that of each R the fewest are sought from below: a number is
    ruled out by a bound on the period, or else searched.
    """

    def __init__(
        self,
        problem: PartitionProblem,
        objective: Objective,
        numbers: tuple[int, ...],
        solve: SolveFor,
    ) -> None:
        assert objective.throughput_per_s is not None
        self._problem = problem
        self._objective = objective
        self._rate = objective.throughput_per_s
        chips = problem.num_chips
        units = int((~problem.clonable).sum())
        one = len(numbers) == 1
        self._counts = numbers if one else tuple(range(1, chips + 1))
        self._most_each = {count: min(chips // count, units) for count in self._counts}
        self._solve = solve
        self._bounds: dict[tuple[int, int], LowerBound | None] = {}
        self._found: dict[tuple[int, int], Partition] = {}
        self._fastest_s = math.inf

    def find(self) -> Pipelines:
        """Tries totals from the smallest on.

        Raises:
            CompileError: MCM-P063 where even all chips do not reach the throughput.
        """
        proven = 0
        for total, count, each in self._candidates():
            verdict = self._reaches(count, each)
            if verdict is not None:
                return self._answer(verdict, count, each, proven)
            if not self._is_ruled_out(count, each) and proven == 0:
                # From here on nothing is proven: this one may reach it, and was not found to.
                proven = total
        raise CompileError.of(
            "MCM-P063",
            f"{rate_text(self._rate)} are asked for, and "
            f"{'no number of chips reaches' if proven == 0 else 'none was found to reach'} "
            f"them: {self._most()}",
            at="option throughput",
        )

    def _most(self) -> str:
        """The throughput that was found, or what no number of chips exceeds."""
        chips = count_text(self._problem.num_chips, "chip")
        if self._fastest_s < math.inf:
            return f"{chips} reach {rate_text(1.0 / self._fastest_s)}"
        bounds = [(one, self._bound(one, each)) for one, each in self._most_each.items() if each]
        rates = [one / bound.seconds for one, bound in bounds if bound is not None]
        if not rates:
            return f"{chips} do not have the memory for the model"
        return f"{chips} reach at most {rate_text(max(rates))}"

    def _candidates(self) -> Iterator[tuple[int, int, int]]:
        """All numbers of pipelines with chips each: fewest chips first, then fewest pipelines."""
        found = [
            (count * each, count, each)
            for count in self._counts
            for each in range(1, self._most_each[count] + 1)
        ]
        yield from sorted(found)

    def _limit_s(self, count: int) -> float:
        """Limit of one of this many pipelines, in seconds."""
        return count / self._rate * (1.0 + ROUNDING)

    def _bound(self, count: int, each: int) -> LowerBound | None:
        """On the period of one of this many pipelines; None where nothing has space."""
        key = count, each
        if key not in self._bounds:
            shared = on_share(self._problem, each, count)
            self._bounds[key] = None if impossible(shared) else lower_bound(shared)
        return self._bounds[key]

    def _is_ruled_out(self, count: int, each: int) -> bool:
        bound = self._bound(count, each)
        return bound is None or bound.seconds > self._limit_s(count)

    def _reaches(self, count: int, each: int) -> Partition | None:
        """A partition that reaches the throughput, where one is found."""
        if self._is_ruled_out(count, each):
            return None
        shared = on_share(self._problem, each, count)
        try:
            solved = self._solve(shared, count, self._objective)
        except CompileError as error:
            if {d.code for d in error.diagnostics} <= {"MCM-P016"}:
                self._bounds[count, each] = LowerBound(math.inf, str(error), "ideals")
            return None
        found = solved.partition
        if found.bound.seconds > self._limit_s(count):
            self._bounds[count, each] = found.bound
        if not solved.fits:
            return None
        self._fastest_s = min(self._fastest_s, found.period_s / count)
        return found if found.period_s <= self._limit_s(count) else None

    def _answer(self, found: Partition, count: int, each: int, proven: int) -> Pipelines:
        total = count * found.num_chips_used
        bound = min(proven or total, total)
        rows: list[ShareBound] = []
        for other in self._counts:
            fewer = min((bound - 1) // other, self._most_each[other])
            if fewer < 1:
                continue
            rows.append(_row(other, fewer, self._bound(other, fewer)))
        figures = ObjectiveFigures(self._objective, float(total), float(bound), None, tuple(rows))
        shared = on_share(self._problem, each, count)
        return Pipelines(shared, replace(found, figures=figures), Replication(count, each))
