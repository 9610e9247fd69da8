"""Sensitivities of a plan: the model planned for a cluster with more and less of each resource."""

from __future__ import annotations

import math
from dataclasses import replace

from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.planning import PlanAnswer, Planner, PlanRequest, planned_by
from mcm_compiler.contracts.sharding.parallel_plan import ParallelPlan
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report.hardware.sensitivity_section import change_text
from mcm_compiler.variants.sensitivities import Change, changes_of
from mcm_compiler.variants.step_changes import StepChange, is_faster, step_change

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
    if not isinstance(cluster := request.target, ClusterTarget):
        return answer, ()
    changes = changes_of(cluster)
    if math.isinf(_seconds(answer)):
        none = [StepChange(one.resource.name, one.factor, None, None, _NO_TIME) for one in changes]
        return answer, tuple(none)

    def planned(change: Change[ClusterTarget], start: ParallelPlan | None) -> PlanAnswer | str:
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


def _carried(plan: ParallelPlan, target: ClusterTarget) -> ParallelPlan:
    """The plan with the number of servers that it uses."""
    return replace(plan, servers=plan.servers or target.cluster.servers)
