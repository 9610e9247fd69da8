"""How tight a package can be for a model, found with the compiler's own answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from partition_cases.cases import CaseSpec, build_case
from partition_cases.memory_need import too_little_memory
from partition_cases.packages import TIGHTNESS, sram_mib_for

from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.diagnostics import CompileError
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import strategy_of

STEP = 0.1
"""Between the factors that are tried."""

EFFORT_S = 5.0
"""Deterministic seconds of CP-SAT to find a partition or to prove that there is none."""

MOST_UNITS = 1000
"""Units up to which CP-SAT is asked."""

PROVEN = "none exists"
"""How the reasons of `cpsat` begin that are proofs."""

Verdict = Literal["fits", "none exists", "none found"]


@dataclass(frozen=True)
class Attempt:
    """Whether a model fits a package.

    Attributes:
        chips: of the package.
        sram_mib: of each chip.
        factor: memory of all chips over the weights, as asked for.
        verdict: "none exists" is proven, under the compiler's estimate of memory.
        why: what fits it, or what keeps it from fitting.
    """

    chips: int
    sram_mib: float
    factor: float
    verdict: Verdict
    why: str


def find_tightness(model: str, source: str) -> dict[str, Any]:
    """The tight packages of a model.

    Returns:
        `at_bar`, the attempt with `TIGHTNESS` on all chips; `most_chips`, the one on as many chips
        as possible, and `one_more`, why not on one more; `least_factor`, the one with all chips
        and as little memory as possible, and `one_less`, why not with less. Without `one_more`
        and `one_less` where `at_bar` fits.
    """
    roomy = build_case(CaseSpec(model, source, "roomy", "relay"))
    limits = roomy.problem.limits
    weight_bytes = int(roomy.problem.weight_bytes.sum())

    def attempt(chips: int, factor: float) -> Attempt:
        sram_mib = sram_mib_for(weight_bytes, chips, factor)
        spec = CaseSpec(model, source, "tight", "relay", chips, sram_mib)
        verdict, why = try_to_fit(spec)
        return Attempt(chips, sram_mib, factor, verdict, why)

    all_chips = limits.num_chips
    at_bar = attempt(all_chips, TIGHTNESS)
    found = {"at_bar": at_bar, "most_chips": at_bar, "least_factor": at_bar}
    if at_bar.verdict != "fits":
        counts = range(all_chips - 1, 0, -1)
        last, fits = _first_that_fits(at_bar, counts, lambda chips: attempt(chips, TIGHTNESS))
        found |= {"one_more": last} | ({"most_chips": fits} if fits else {})
        most = limits.sram_bytes[0] * all_chips / weight_bytes
        steps = range(1, int((most - TIGHTNESS) / STEP) + 1)
        last, fits = _first_that_fits(
            at_bar, steps, lambda k: attempt(all_chips, round(TIGHTNESS + k * STEP, 6))
        )
        found |= {"one_less": last} | ({"least_factor": fits} if fits else {})
    return {"weights_mib": weight_bytes / 2**20} | {k: asdict(v) for k, v in found.items()}


def try_to_fit(spec: CaseSpec) -> tuple[Verdict, str]:
    """Whether a partition exists for a case, and what says so."""
    try:
        problem = build_case(spec).problem
    except CompileError as error:
        fault = error.diagnostics[0]
        return "none exists", f"{fault.code}: {fault.message}"
    faults = impossible(problem)
    if faults:
        return "none exists", f"{faults[0].code}: {faults[0].message}"
    if reason := too_little_memory(problem):
        return "none exists", reason
    return _search(problem)


def _search(problem: PartitionProblem) -> tuple[Verdict, str]:
    reason = ""
    for text in ("dp", "cpsat") if problem.num_units <= MOST_UNITS else ("dp",):
        outcome = strategy_of(text).solve(
            problem, AnalyticPeriods(problem), np.random.default_rng(0), Budget(effort_s=EFFORT_S)
        )
        if outcome.chip_of is not None:
            return "fits", text
        reason = outcome.reason
    return ("none exists" if reason.startswith(PROVEN) else "none found"), reason


def _first_that_fits(
    before: Attempt, steps: range, attempt: Callable[[int], Attempt]
) -> tuple[Attempt, Attempt | None]:
    """The last attempt before the first one that fits, and that one."""
    for step in steps:
        found = attempt(step)
        if found.verdict == "fits":
            return before, found
        before = found
    return before, None
