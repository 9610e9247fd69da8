"""The search: asks a placer, and believes it nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mcm_compiler.contracts.boxes import placers
from mcm_compiler.contracts.boxes.bounds import EveryPlacement, every_placement
from mcm_compiler.contracts.boxes.box import Box, BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator, StepResults
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.text import spec_text
from mcm_compiler.text.units import bytes_text, seconds_text


def placer_text(options: PlaceOptions) -> str:
    """Text form of the placer that searches.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names of placers, and as
            `load_level`.
    """
    text = options.placer or load_level(options.level).placer
    placers.placer_of(text)
    return text


def search(
    problem: StepProblem,
    target: BoxTarget,
    options: PlaceOptions,
    progress: Callable[[str], None],
) -> tuple[placers.PlacerAnswer, StepResults, StepEvaluator, EveryPlacement | None]:
    """The placement, what the simulator says of it, and of all placements where they are few.

    Without a placer that is asked for, the best of few placements is the answer. A placer that
    searches is asked, and its answer is taken where none is faster; what one that follows a rule
    says is the answer in any case.

    Raises:
        CompileError: as the placer; MCM-D074 where its placement does not fit, and MCM-D075 where
            it is none of this problem.
    """
    text = placer_text(options)
    placer = placers.placer_of(text)
    evaluator = target.step_evaluator(problem, StepConditions(order=options.order))
    allowed = options.evaluations or load_level(options.level).placements_of(problem.num_ops)
    request = placers.PlacerRequest(
        problem,
        target.box,
        evaluator,
        evaluations=allowed,
        seed=options.seed,
        budget_s=options.budget_s,
        progress=progress,
        simulate=target.step_evaluator,
        order=options.order,
    )
    name = spec_text.parse_one(text).name
    every = every_placement(problem, evaluator)
    exact = None
    if every is not None and every.device_of is not None:
        exact = placers.PlacerAnswer(
            every.device_of, f"all {every.count:,} placements", every.count
        )
    if exact is not None and options.placer is None:
        return exact, simulated(problem, evaluator, exact, name), evaluator, every
    answer = placers.placer_answer(text, placer, request)
    results = simulated(problem, evaluator, answer, name)
    if exact is not None and every is not None and getattr(placer, "searches", False):
        took = float(results.seconds[0]) if results.fits[0] else np.inf
        if every.seconds < took:
            spent = answer.evaluations + every.count
            answer = replace(answer, found=exact.found, method=exact.method, evaluations=spent)
            results = simulated(problem, evaluator, answer, name)
    if not results.fits[0]:
        raise CompileError(_does_not_fit(problem, target.box, results, name))
    return answer, results, evaluator, every


def simulated(
    problem: StepProblem, evaluator: StepEvaluator, answer: placers.PlacerAnswer, placer: str
) -> StepResults:
    """The simulator's word on a placer's answer.

    Raises:
        CompileError: MCM-D075 where the answer is no placement of this problem.
    """
    fault = None
    if answer.device_of.shape != (problem.num_ops,):
        fault = f"it has devices for {answer.device_of.shape}, not for {problem.num_ops:,} ops"
    else:
        try:
            return evaluator.evaluate(answer.device_of[None, :].astype(np.int32))
        except ValueError as error:
            fault = str(error)
    raise CompileError.of(
        "MCM-D075",
        f"what placer {quote(placer)} found is no placement: {fault}",
        at=f"placer {quote(placer)}",
    )


def _does_not_fit(
    problem: StepProblem, box: Box, results: StepResults, placer: str
) -> list[Diagnostic]:
    """MCM-D074 for each device whose memory overflows."""
    peak = results.peak_bytes[0]
    held = problem.value_bytes[problem.stays].sum()
    return [
        Diagnostic(
            "MCM-D074",
            f"the best placement that {quote(placer)} found needs {bytes_text(int(peak[d]))} on "
            f"{quote(box.devices[d])}, which has {bytes_text(int(box.memory_bytes[d]))}; its step "
            f"takes {seconds_text(float(results.seconds[0]))}, and the variables of the model are "
            f"{bytes_text(int(held))}",
            at=f"device {quote(box.devices[d])}",
        )
        for d in np.flatnonzero(peak > box.memory_bytes).tolist()
    ]
