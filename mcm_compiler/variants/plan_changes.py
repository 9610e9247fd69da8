"""Sensitivities of a plan: the model planned for a cluster with more and less of each resource.

Sensitivities of steps: how their time changes with twice and half of each resource.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mcm_compiler.additions import other_targets
from mcm_compiler.contracts.described import Described
from mcm_compiler.contracts.planning import PlanAnswer, Planner, PlanRequest, planned_by
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report.hardware.sensitivity_section import change_text
from mcm_compiler.text.units import UNKNOWN, seconds_text
from mcm_compiler.variants.sensitivities import Change, changes_of

_APART = "no plan as fast was found for the cluster"
_NO_TIME = "the planner estimates no time of its plans"


def plan_changes(
    text: str, planner: Planner, request: PlanRequest, answer: PlanAnswer
) -> tuple[PlanAnswer, tuple[StepChange, ...]]:
    """Plan for a cluster with twice and half of each resource.

    A plan for less of a resource can be carried out with more of it. So searches start from the
    plan for the cluster where there is more, and the search for the cluster starts again from each
    plan for less that is faster.

    Args:
        text: text form of the planner.
        planner: the planner.
        request: the request for the cluster.
        answer: the planner's answer to it.

    Returns:
        The answer, or a faster one that starts from a plan for less; and a row for each change,
        none where the cluster names no resources.
    """
    cluster = request.target
    if other_targets(cluster) is None:
        return answer, ()
    changes = changes_of(cluster)
    if math.isinf(_seconds(answer)):
        none = [StepChange(one.resource.name, one.factor, None, None, _NO_TIME) for one in changes]
        return answer, tuple(none)

    def planned(change: Change[Described], start: ParallelPlan | None) -> PlanAnswer | str:
        """The answer for a changed cluster, or why there is none."""
        request.progress(change_text({"resource": change.resource.name, "factor": change.factor}))
        if change.target is None:
            return change.why_not[0].message
        try:
            asked = replace(request, target=change.target, start=start)
            return planned_by(text, planner, asked)
        except CompileError as error:
            return error.diagnostics[0].message

    found = {at: planned(one, None) for at, one in enumerate(changes) if one.factor < 1.0}
    for at in sorted(found, key=lambda at: _seconds(found[at])):
        half, smaller = found[at], changes[at].target
        if isinstance(half, PlanAnswer) and smaller and is_faster(_seconds(half), _seconds(answer)):
            start = _carried(half.plan, smaller)
            again = planned_by(text, planner, replace(request, start=start))
            answer = again if is_faster(_seconds(again), _seconds(answer)) else answer
    start = _carried(answer.plan, cluster)
    found |= {at: planned(one, start) for at, one in enumerate(changes) if one.factor > 1.0}
    rows: list[StepChange] = []
    for at, one in enumerate(changes):
        result = found[at]
        rows.append(
            step_change(
                one.resource.name,
                one.factor,
                _seconds(answer),
                _seconds(result),
                fault=result if isinstance(result, str) else _NO_TIME,
                apart=_APART,
            )
        )
    return answer, tuple(rows)


def _seconds(answer: PlanAnswer | str) -> float:
    """Estimated seconds of a plan; infinite where there are none."""
    estimates = () if isinstance(answer, str) else answer.estimates
    return min(
        (e.seconds for e in estimates if e.chosen and e.seconds is not None), default=math.inf
    )


def _carried(plan: ParallelPlan, target: Any) -> ParallelPlan:
    """The plan with the number of servers that it uses."""
    return replace(plan, servers=plan.servers or target.cluster.servers)


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
