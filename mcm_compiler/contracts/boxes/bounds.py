"""Bounds on placements of a step: the contract, and all placements of a small step, simulated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.requests import in_form
from mcm_compiler.graph.trip_counts import assumed_trips, assumption_text
from mcm_compiler.registry import STEP_BOUNDS

ROOM = 1e-9
"""Relative, for sums that are taken in another order: a bound may be as far above a time."""


@dataclass(frozen=True)
class StepBound:
    """A time that no placement beats.

    Attributes:
        seconds: the bound.
        argument: why, in a sentence with numbers.
        critical_path_s: of the longest chain of ops, each on its fastest device, without copies.
        work_s: of all work, divided over the devices as finely as one likes.
    """

    seconds: float
    argument: str
    critical_path_s: float = 0.0
    work_s: float = 0.0


BoundStep = Callable[[StepProblem, Box], StepBound]
"""Bounds a step in a box from below. Registered as kind `step-bound`.

Raises `CompileError` MCM-D012 where it proves that no placement fits into the memories."""


def bound_step(problem: StepProblem, box: Box) -> StepBound:
    """The largest of all bounds that are registered; 0 where none is.

    Raises:
        CompileError: MCM-D012 where no placement fits, MCM-X003 for one that cannot be loaded,
            MCM-X007 for one that fails or gives no bound.
    """
    best = StepBound(0.0, "time is not negative")
    for registration in STEP_BOUNDS.registrations():
        found = _bound_by(registration.name, problem, box)
        if found.seconds > best.seconds:
            best = found
    return best


def claimed_bound(bound: StepBound, graph: ir.Graph) -> StepBound:
    """A bound as it may be claimed of a step: none where its times assume trip counts of loops."""
    if not (assumed := assumed_trips(graph)):
        return bound
    return StepBound(0.0, assumption_text(assumed))


def refuse_refuted(problem: StepProblem, box: Box, bound: StepBound, seconds: float) -> None:
    """Refuses a bound that a placement is below.

    Args:
        problem: the step.
        box: the devices.
        bound: as `bound_step` gives it.
        seconds: that the step takes under some placement.

    Raises:
        CompileError: MCM-X007 with the name of the bound.
    """
    if bound.seconds <= seconds * (1.0 + ROOM):
        return
    for registration in STEP_BOUNDS.registrations():
        found = _bound_by(registration.name, problem, box)
        if found.seconds == bound.seconds:
            with STEP_BOUNDS.at_work(registration.name):
                raise ValueError(
                    f"it says that no step is faster than {found.seconds:.9g} s, and one takes "
                    f"{seconds:.9g} s"
                )


def _bound_by(name: str, problem: StepProblem, box: Box) -> StepBound:
    """The bound of one that is registered, with numbers that are some."""
    bound_it = cast("BoundStep", STEP_BOUNDS.get(name))
    with STEP_BOUNDS.at_work(name):
        found = in_form(bound_it(problem, box), StepBound)
        times = found.seconds, found.critical_path_s, found.work_s
        if math.inf in times:
            raise ValueError(f"it gave {times}, and times are finite")
        return found


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
    choices = [np.flatnonzero(row) for row in problem.group_allowed]
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
