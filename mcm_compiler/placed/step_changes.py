"""Sensitivities of a placed step: the same step with twice and half of each resource of a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import BoxTarget, ScalesResources, StepProblem
from mcm_compiler.contracts.boxes.evaluation import QueueOrder, StepConditions, StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerAnswer
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.variants.step_changes import StepChange, is_faster, step_change

_APART = "slower parts start ops in another order"


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
    if is_faster(times[best], times[0]):
        spent = sum(one.evaluations for one in answers)
        # Scores of its search are those of another host.
        answer = replace(answers[best], evaluations=spent, history=(), figures=())
    base_s, changes = min(times), list[StepChange]()
    for resource, factor, simulator, rows, fault in changed:
        seconds = min(_seconds(simulator, [answer.device_of, *rows]))
        changes.append(step_change(resource, factor, base_s, seconds, fault=fault, apart=_APART))
    return answer, tuple(changes)


def _seconds(evaluator: StepEvaluator, placements: Sequence[Ints]) -> list[float]:
    """Seconds of the step with each placement; infinite where it does not fit."""
    results = evaluator.evaluate(np.stack(placements).astype(np.int32))
    return np.where(results.fits, results.seconds, np.inf).tolist()
