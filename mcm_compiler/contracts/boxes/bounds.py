"""The contract of bounds: what no placement of a step can be faster than."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.registry import STEP_BOUNDS


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
"""Bounds a step in a box from below. Registered under `mcm_compiler.step_bounds`.

Raises `CompileError` MCM-D012 where it proves that no placement fits into the memories."""


def bound_step(problem: StepProblem, box: Box) -> StepBound:
    """The largest of all bounds that are registered; 0 where none is.

    Raises:
        CompileError: MCM-D012 where no placement fits, MCM-X003 for one that cannot be loaded.
    """
    best = StepBound(0.0, "time is not negative")
    for registration in STEP_BOUNDS.registrations():
        found = cast("BoundStep", STEP_BOUNDS.get(registration.name))(problem, box)
        if found.seconds > best.seconds:
            best = found
    return best
