"""All placements of a small step, simulated: the best of them, and a bound that is reached."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.bounds import StepBound
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.step import StepProblem

MOST_PLACEMENTS = 1 << 16
"""Placements up to which all are simulated."""

MOST_WORK = 1 << 24
"""Placements times ops up to which all are simulated: about a second."""

AT_ONCE = 1 << 12
"""Placements that are simulated in one call."""


@dataclass(frozen=True, eq=False)
class EveryPlacement:
    """Result of simulating all placements.

    Attributes:
        count: their number.
        device_of: `[N]`, the first of the fastest that fit; None if none fits.
        seconds: of it; infinite if none fits.
    """

    count: int
    device_of: Ints | None
    seconds: float

    def bound(self, known: StepBound) -> StepBound:
        """The bound that no placement beats, as the simulator plays it; `known` where none fits."""
        if self.device_of is None:
            return known
        argument = f"all {self.count:,} placements, simulated op by op in the given order of queues"
        return replace(known, seconds=self.seconds, argument=argument)


def every_placement(problem: StepProblem, evaluator: StepEvaluator) -> EveryPlacement | None:
    """Simulates all placements of a step; None where there are too many.

    Args:
        problem: the step, with its constraints.
        evaluator: of it.
    """
    allowed = np.ones((problem.num_groups, problem.allowed.shape[1]), np.bool_)
    np.logical_and.at(allowed, problem.together, problem.allowed)
    choices = [np.flatnonzero(row) for row in allowed]
    count = math.prod(map(len, choices))
    if not 0 < count <= MOST_PLACEMENTS or count * problem.num_ops > MOST_WORK:
        return None
    best, seconds = None, math.inf
    for begin in range(0, count, AT_ONCE):
        number = np.arange(begin, min(begin + AT_ONCE, count))
        devices = np.empty((len(number), len(choices)), np.int32)
        for group, known in enumerate(choices):
            number, digit = np.divmod(number, len(known))
            devices[:, group] = known[digit]
        placements = np.ascontiguousarray(devices[:, problem.together])
        results = evaluator.evaluate(placements)
        took = np.where(results.fits, results.seconds, np.inf)
        first = int(took.argmin())
        if took[first] < seconds:
            best, seconds = placements[first], float(took[first])
    return EveryPlacement(count, best, seconds)
