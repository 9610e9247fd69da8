"""Sensitivities of a placed step: the same step with twice and half of each resource of a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import BoxTarget, ScalesResources, StepProblem
from mcm_compiler.contracts.boxes.evaluation import QueueOrder, StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report.hardware.sensitivity_section import change_text
from mcm_compiler.text.units import UNKNOWN, seconds_text

ROUNDING = 1e-9
"""Share by which times that are equal may differ."""

_APART = "not comparable: slower parts start ops in another order"


@dataclass(frozen=True)
class StepChange:
    """The step on a host with more or less of one resource.

    Attributes:
        resource: what was changed.
        factor: by which.
        seconds: of the step with the fastest of the placements found for the changed host and for
            the host itself; None where none fits.
        speedup: time on the host over `seconds`; None where there is none, or `note` says why the
            two do not compare.
        note: why no placement was found, that what is more of the resource stays idle, or why the
            two times do not compare; empty where they do.
    """

    resource: str
    factor: float
    seconds: float | None
    speedup: float | None
    note: str = ""


def step_changes(
    target: BoxTarget,
    problem_of: Callable[[BoxTarget], StepProblem],
    searched: Callable[[StepProblem, BoxTarget], PlacerAnswer],
    order: QueueOrder,
    evaluator: StepEvaluator,
    answer: PlacerAnswer,
) -> tuple[PlacerAnswer, tuple[StepChange, ...]]:
    """Places the step on changed hosts.

    Args:
        target: the host.
        problem_of: the step with the user's constraints on a host.
        searched: what the placer finds for a problem on a host.
        order: of queues.
        evaluator: of the problem on `target`.
        answer: what the placer found for `target`.

    Returns:
        The answer, or one for a host with less of a resource that is faster on `target`; and a row
        for each change, none where the host does not scale.
    """
    if not isinstance(target, ScalesResources):
        return answer, ()
    answers = [answer]
    changed: list[tuple[str, float, StepEvaluator, Sequence[Ints], str]] = []
    for resource in target.resources:
        for factor in (2.0, 0.5):
            other = target.scaled(resource, factor)
            problem, rows, fault = problem_of(other), list[Ints](), ""
            try:
                found = searched(problem, other)
                rows.append(found.device_of)
                answers += [found] if factor < 1.0 else []
            except CompileError as error:
                fault = error.diagnostics[0].message
            simulator = other.step_evaluator(problem, StepConditions(order=order))
            changed.append((resource, factor, simulator, rows, fault))
    times = _seconds(evaluator, [one.device_of for one in answers])
    best = int(np.argmin(times))
    if times[best] < times[0] * (1.0 - ROUNDING):
        spent = sum(one.evaluations for one in answers)
        # Scores of its search are those of another host.
        answer = replace(answers[best], evaluations=spent, history=(), figures=())
    base_s, changes = min(times), list[StepChange]()
    for resource, factor, simulator, rows, fault in changed:
        seconds = min(_seconds(simulator, [answer.device_of, *rows]))
        if not np.isfinite(seconds):
            changes.append(StepChange(resource, factor, None, None, fault))
            continue
        idle = factor > 1.0 and seconds > base_s * (1.0 + ROUNDING)
        apart = factor < 1.0 and seconds < base_s * (1.0 - ROUNDING)
        seconds = base_s if idle else seconds
        note = "idle" if idle else _APART if apart else ""
        speedup = None if apart else base_s / seconds if seconds else 1.0
        changes.append(StepChange(resource, factor, seconds, speedup, note))
    return answer, tuple(changes)


def change_rows(changes: Sequence[StepChange]) -> list[list[str]]:
    """Rows of a table below a head; empty without changes."""
    rows = [["change", "step time", "vs. now", ""]] if changes else []
    for one in changes:
        speedup = UNKNOWN if one.speedup is None else f"{one.speedup:.2f}x"
        rows.append([change_text(asdict(one)), seconds_text(one.seconds), speedup, one.note])
    return rows


def _seconds(evaluator: StepEvaluator, placements: Sequence[Ints]) -> list[float]:
    """Seconds of the step with each placement; infinite where it does not fit."""
    results = evaluator.evaluate(np.stack(placements).astype(np.int32))
    return np.where(results.fits, results.seconds, np.inf).tolist()
