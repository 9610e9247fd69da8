"""What the placement competes with for whoever runs segments: the whole step on one device."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Bools
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.step import INPUT, StepProblem
from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.placed.segments import Segments
from mcm_compiler.text.units import count_text, seconds_text


def alone_note(
    problem: StepProblem,
    box: Box,
    evaluator: StepEvaluator,
    segments: Segments,
    dispatch_s: float,
) -> list[Diagnostic]:
    """MCM-D076 where one device alone, in one segment, beats the placement in segments.

    Args:
        problem: what was placed.
        box: the devices.
        evaluator: of the problem.
        segments: of the placement, with the time of their step.
        dispatch_s: time that the start of a segment takes.
    """
    given = np.array([kind == INPUT for kind in problem.op_types], np.bool_)
    devices = [d for d in range(box.num_devices) if _runs_all(problem, given, d)]
    if not devices or segments.seconds is None:
        return []
    first = problem.allowed.argmax(axis=1)
    placements = np.stack([np.where(given, first, d) for d in devices]).astype(np.int32)
    results = evaluator.evaluate(placements)
    alone = np.where(results.fits, results.seconds + dispatch_s, np.inf)
    best = int(np.argmin(alone))
    if alone[best] >= segments.seconds:
        return []
    device = box.devices[devices[best]]
    return [
        Diagnostic(
            "MCM-D076",
            f"in {count_text(segments.count, 'segment')} the step takes "
            f"{seconds_text(segments.seconds)}, all of it on {quote(device)} in one segment "
            f"{seconds_text(float(alone[best]))}",
            at=f"device {quote(device)}",
            hint="the placement pays where a runtime starts ops on several devices by itself, or "
            "dispatches in less; for segments take --placer single, or give --dispatch",
            severity=Severity.NOTE,
        )
    ]


def _runs_all(problem: StepProblem, given: Bools, device: int) -> bool:
    return bool(problem.allowed[~given, device].all())
