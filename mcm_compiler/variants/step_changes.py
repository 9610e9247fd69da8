"""Sensitivities of steps: how their time changes with twice and half of each resource."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mcm_compiler.report.hardware.sensitivity_section import change_text
from mcm_compiler.text.units import UNKNOWN, seconds_text

ROUNDING = 1e-9
"""Share by which times that are equal may differ."""


@dataclass(frozen=True)
class StepChange:
    """A step on hardware with more or less of one resource.

    Attributes:
        resource: what was changed.
        factor: by which.
        seconds: of the step with the fastest known answer for the changed hardware, where the
            answer for the hardware itself counts as well if it has no more of the resource; None
            where there is none.
        speedup: time on the hardware itself over `seconds`; None where there is none, or `note`
            says why the two do not compare.
        note: why there is no answer, that what is more of the resource stays idle, or why the two
            times do not compare; empty where they do.
    """

    resource: str
    factor: float
    seconds: float | None
    speedup: float | None
    note: str = ""


def step_change(
    resource: str, factor: float, base_s: float, seconds: float, *, fault: str, apart: str
) -> StepChange:
    """Compare the time on changed hardware with that on the hardware itself.

    Args:
        resource: what was changed.
        factor: by which.
        base_s: seconds on the hardware itself.
        seconds: on the changed one; infinite where there is no answer.
        fault: why there is none.
        apart: why half of a resource can be faster.
    """
    if not math.isfinite(seconds):
        return StepChange(resource, factor, None, None, fault)
    if factor < 1.0 and is_faster(seconds, base_s):
        return StepChange(resource, factor, seconds, None, f"not comparable: {apart}")
    idle = factor > 1.0 and is_faster(base_s, seconds)
    seconds = base_s if idle else seconds
    speedup = base_s / seconds if seconds else 1.0
    return StepChange(resource, factor, seconds, speedup, "idle" if idle else "")


def is_faster(one_s: float, other_s: float) -> bool:
    """Return whether a time is shorter than another by more than rounding."""
    return one_s < other_s * (1.0 - ROUNDING)


def change_rows(changes: Sequence[StepChange]) -> list[list[str]]:
    """Rows of a table below a head; empty without changes."""
    rows = [["change", "step time", "vs. now", ""]] if changes else []
    for one in changes:
        speedup = UNKNOWN if one.speedup is None else f"{one.speedup:.2f}x"
        rows.append([change_text(asdict(one)), seconds_text(one.seconds), speedup, one.note])
    return rows
