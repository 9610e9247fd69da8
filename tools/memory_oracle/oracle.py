"""One case: every assignment planned by the target, and every claim held against that."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.api import run_passes
from mcm_compiler.certificate.bound_check import all_proof_checkers
from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PARTITION, Budget, Ints, Outcome, PartitionProblem
from mcm_compiler.diagnostics import CompileError
from mcm_passes.families.ring.exact.cpsat import CpSat
from mcm_passes.families.ring.exact.ideals import Ideals
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.problem.partition_problem import build_problem
from memory_oracle.cases import ROOMY_BYTES, Case, for_compile
from memory_oracle.plain_period import plain_period

ROOM = 1e-9
"""Relative room for sums taken in another order."""

REFUSALS = frozenset({"MCM-P004", "MCM-P005", "MCM-P015", "MCM-P016", "MCM-P030"})
"""Diagnostics that say that no partition exists."""


@dataclass
class Found:
    """What one case showed.

    Attributes:
        seed: of the case.
        assignments: planned.
        fit: of them, those that the planner fits and that keep the rules.
        refused: the diagnostic that the compiler ended with, or "".
        proven: whether the compiler called its partition optimal.
        contradictions: claims that brute force contradicts; empty where all is well.
    """

    seed: int
    assignments: int = 0
    fit: int = 0
    refused: str = ""
    proven: bool = False
    contradictions: list[str] = field(default_factory=list[str])


def examine(case: Case) -> Found:
    """Plans all assignments of a case and holds all claims against them."""
    found = Found(case.seed)
    problem, evaluator = _prepared(case, ROOMY_BYTES)
    rows = _assignments(problem)
    roomy = evaluator.evaluate(rows)
    allowed = roomy.kind == ResultKind.RUNS
    least = int(roomy.high_water_bytes[allowed].max(axis=1).min())
    # A description gives MiB; multiples of 64 bytes are exact there.
    sram = max(int(case.share * least) // 64, 1) * 64
    problem, evaluator = _prepared(case, sram)
    # What may be cloned depends on the memory, and so do the assignments.
    rows = _assignments(problem)
    results = evaluator.evaluate(rows)
    runs = results.kind == ResultKind.RUNS
    planned_rows = results.kind != ResultKind.BREAKS_RULE
    found.assignments = int(planned_rows.sum())
    found.fit = int(runs.sum())
    streams = problem.streams
    if not streams:
        plans = results.high_water_bytes[planned_rows]
        for chips, planned in zip(rows[planned_rows], plans, strict=True):
            need = evaluate(problem.at_need(), chips).memory_bytes
            if (need > planned).any():
                found.contradictions.append(f"need {need} is more than the plan {planned}")
                break
    best_s = min((plain_period(problem, row) for row in rows[runs]), default=np.inf)
    if streams and np.isfinite(best_s):
        # What is streamed takes time as well, which only the simulator knows here.
        best_s = max(best_s, float(results.period_s[runs].min()))
    hold(found, "impossible", infeasible=bool(impossible(problem)), bound_s=0.0, best_s=best_s)
    hold(
        found, "lower_bound", infeasible=False, bound_s=lower_bound(problem).seconds, best_s=best_s
    )
    for strategy, one in (
        (CpSat(ideals=0), problem),
        (Ideals(), problem),
        (Ideals(), problem.at_need()),
    ):
        outcome = _solved(strategy, one)
        name = f"{strategy.name} on the {one.memory}"
        seconds = outcome.bound.seconds if outcome.bound is not None else 0.0
        hold(found, name, infeasible=outcome.infeasible, bound_s=seconds, best_s=best_s)
    if np.isfinite(best_s):
        _check_checkers(found, problem, best_s)
    _compile(found, case, sram, best_s, evaluator)
    return found


def _prepared(case: Case, sram_bytes: int) -> tuple[PartitionProblem, BatchEvaluator]:
    target = case.target(sram_bytes)
    model, _, _ = run_passes(case.model.clone(), target, case.options)
    plan = FUSION_PLAN.get(model)
    problem = build_problem(model, target, case.options.routing, plan)
    return problem, required_batch_evaluation_of(target).batch_evaluator(
        model, problem, plan.group_names
    )


def _assignments(problem: PartitionProblem) -> Ints:
    """All placements of the units that are not clonable, `[B, N]`, that dependencies allow."""
    fixed = np.flatnonzero(~problem.clonable)
    chips = np.array(
        list(itertools.product(range(problem.num_chips), repeat=fixed.size)), np.int32
    ).reshape(-1, fixed.size)
    rows = np.zeros((len(chips), problem.num_units), np.int32)
    rows[:, fixed] = chips
    keep = np.ones(len(rows), np.bool_)
    for t, u in enumerate(problem.tensor_producer.tolist()):
        if u >= 0 and not problem.clonable[u]:
            for v in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]:
                keep &= rows[:, u] <= rows[:, v]
    return rows[keep]


def _solved(strategy: CpSat | Ideals, problem: PartitionProblem) -> Outcome:
    budget = Budget(evaluations=2000, effort_s=1.0)
    rng = np.random.default_rng(0)
    return strategy.solve(problem, AnalyticPeriods(problem), rng, budget)


def hold(found: Found, who: str, *, infeasible: bool, bound_s: float, best_s: float) -> None:
    """Notes a claim that what fits contradicts; `best_s` is infinite where nothing fits."""
    if infeasible and np.isfinite(best_s):
        found.contradictions.append(f"{who}: none exists, and {found.fit} fit")
    if bound_s > best_s * (1.0 + ROOM):
        found.contradictions.append(f"{who}: bound {bound_s:.9g} s, and {best_s:.9g} s fits")


def _check_checkers(found: Found, problem: PartitionProblem, best_s: float) -> None:
    """No checker may show a bound above what fits."""
    for checker in all_proof_checkers():
        if checker.rules_out(problem, best_s * 1.001):
            found.contradictions.append(f"checker {checker.name} rules out {best_s:.9g} s")


def _compile(
    found: Found, case: Case, sram_bytes: int, best_s: float, evaluator: BatchEvaluator
) -> None:
    """The whole road: refusals, bounds and optimality of `mcmc compile`."""
    try:
        model, _, _ = run_passes(case.model.clone(), case.target(sram_bytes), for_compile(case))
    except CompileError as error:
        found.refused = error.diagnostics[0].code
        no = found.refused in REFUSALS
        hold(found, f"compile, {found.refused}", infeasible=no, bound_s=0.0, best_s=best_s)
        return
    partition = PARTITION.get(model)
    found.proven = partition.period_s <= partition.bound.seconds * (1.0 + ROOM)
    hold(found, "compile", infeasible=False, bound_s=partition.bound.seconds, best_s=best_s)
    if evaluator.evaluate(partition.chip_of[None]).kind[0] != ResultKind.RUNS:
        # Lowering refuses it, with the numbers of its plan.
        found.refused, found.proven = "MCM-P020", False
