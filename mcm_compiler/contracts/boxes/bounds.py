"""The contract of bounds: what no placement of a step can be faster than."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import onnx_ir as ir

from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.step import StepProblem
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
        found = cast("Any", bound_it(problem, box))
        if not isinstance(found, StepBound):
            raise TypeError(f"it gave a {type(found).__name__}, not a StepBound")
        numbers = (found.seconds, found.critical_path_s, found.work_s)
        seconds, critical_path_s, work_s = (float(number) for number in numbers)
        if not all(math.isfinite(n) and n >= 0.0 for n in (seconds, critical_path_s, work_s)):
            raise ValueError(f"it gave {numbers}, and times are finite and not negative")
        return StepBound(seconds, str(found.argument), critical_path_s, work_s)
