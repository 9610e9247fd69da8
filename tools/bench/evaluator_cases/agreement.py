"""Whether the batch evaluator agrees with the passes, partition by partition."""

from __future__ import annotations

import numpy as np
from evaluator_cases.problems import Case, lowered_by_passes

from mcm_compiler.components.capabilities import simulator_of
from mcm_compiler.contracts.evaluation import ResultKind
from mcm_compiler.contracts.partition import Ints

TOLERANCE = 1e-12
"""Largest relative difference of two times that are the same."""


def disagreements(case: Case, partitions: Ints) -> list[str]:
    """One line per partition of which evaluator and passes say something else.

    Args:
        case: the model.
        partitions: `[B, N]`, that break no rule.
    """
    results = case.evaluator.evaluate(partitions)
    found: list[str] = []
    for row, chip_of in enumerate(partitions):
        program = lowered_by_passes(case, chip_of)
        high_water = [chip.high_water_bytes for chip in program.chips]
        got = results.high_water_bytes[row, : len(high_water)].tolist()
        if got != high_water:
            found.append(f"{case.source} {row}: high water {got}, by the passes {high_water}")
        elif program.overflows:
            if results.kind[row] != ResultKind.OVERFLOWS:
                found.append(f"{case.source} {row}: it overflows")
        else:
            result = simulator_of(case.target).run(program)
            times = np.array([results.period_s[row], results.latency_s[row]])
            expected = np.array([result.period_s, result.latency_s])
            if not np.allclose(times, expected, rtol=TOLERANCE, atol=0.0):
                found.append(f"{case.source} {row}: {times} s, by the passes {expected} s")
    return found
