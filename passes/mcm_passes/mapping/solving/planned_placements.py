"""Small problems whose memory is tight: every placement, with its memory plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.models import evaluate, mapping_of

MOST_PLACEMENTS = 4096
"""Placements that are planned; as many take about a second."""


@dataclass(frozen=True, eq=False)
class Planned:
    """What all placements of a problem come to.

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
        hint="choose a target with more memory per chip, or a smaller batch or sequence",
    )
