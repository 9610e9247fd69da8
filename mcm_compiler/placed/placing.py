"""Placing the ops of a model, or of a training step of it, on the devices of a host.

Sensitivities of a placed step: the same step with twice and half of each resource of a host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import onnx_ir as ir

from mcm_compiler import arguments
from mcm_compiler.arrays.types import Ints
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import PLACEMENT_KIND
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.contracts.boxes import placers
from mcm_compiler.contracts.boxes.bounds import (
    EveryPlacement,
    bound_step,
    claimed_bound,
    every_placement,
    refuse_refuted,
)
from mcm_compiler.contracts.boxes.box import INPUT, Box, BoxTarget, ScalesResources, StepProblem
from mcm_compiler.contracts.boxes.evaluation import (
    QueueOrder,
    StepConditions,
    StepEvaluator,
    StepResults,
)
from mcm_compiler.contracts.boxes.placers import PlacerAnswer
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.graph.states import STATES
from mcm_compiler.graph.trip_counts import assumed_trips, assumption_warning
from mcm_compiler.model_import import doing_name, import_any, set_states
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager, Stopwatch, silent
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_compiler.placed import records
from mcm_compiler.placed.constraints import constrained
from mcm_compiler.placed.device_costs import (
    calibrated_devices,
    given_box,
    option_place,
    with_device_costs,
)
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placed_model import PlacedModel, runs_of
from mcm_compiler.placed.placement_report import (
    placed_headline,
    placement_record,
    report_text,
    source_files,
)
from mcm_compiler.placed.profiles import measured_notes, refuse_contradictions, with_profiles
from mcm_compiler.placed.records import STATED, PlacementManifest
from mcm_compiler.placed.runtime_wishes import runtime_files
from mcm_compiler.placed.segment_models import write_models
from mcm_compiler.placed.segments import Segments, best_segments
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.processes.garbage import reclaim
from mcm_compiler.processes.staging import StagingFolder, staging
from mcm_compiler.text import json_text, spec_text
from mcm_compiler.text.units import bytes_text, count_text, seconds_text
from mcm_compiler.variants.plan_changes import StepChange, is_faster, step_change

if TYPE_CHECKING:
    from mcm_compiler.contracts.target import Target


def write_folder(folder: Path, placed: PlacedModel) -> None:
    """Writes all files of a placement into an empty folder.

    Raises:
        CompileError: as `write_models`.
    """
    schedule = write_models(folder, placed)
    record = placement_record(placed)
    json_text.write(folder / records.PLACEMENT, record.to_dict())
    if schedule is not None:
        json_text.write(folder / records.SCHEDULE, schedule.to_dict())
    for name, data in runtime_files(placed.target.box, placed.device_of_node).items():
        json_text.write(folder / name, data)
    for name, content in source_files(placed.target).items():
        (folder / name).write_bytes(content)
    text = report_text(record, schedule)
    (folder / records.REPORT_TEXT).write_bytes(text)
    names = sorted(path.name for path in folder.iterdir())
    hashes = {name: sha256_file(folder / name) for name in names}
    said = record.to_dict()
    manifest = PlacementManifest(PLACEMENT_KIND, hashes, {name: said[name] for name in STATED})
    json_text.write(folder / records.MANIFEST, manifest.to_dict())


def search(
    problem: StepProblem, target: BoxTarget, options: PlaceOptions, progress: Callable[[str], None]
) -> tuple[placers.PlacerAnswer, StepResults, StepEvaluator, EveryPlacement | None]:
    """The placement, what the simulator says of it, and of all placements where they are few.

    Without a placer that is asked for, the best of few placements is the answer. A placer that
    searches is asked, and its answer is taken where none is faster; what one that follows a rule
    says is the answer in any case.

    Raises:
        CompileError: as the placer; MCM-D074 where its placement does not fit, and MCM-D075 where
            it is none of this problem.
    """
    text = options.placer_text
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


def alone_note(
    problem: StepProblem, box: Box, evaluator: StepEvaluator, segments: Segments, dispatch_s: float
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
    devices = [d for d in range(box.num_devices) if problem.allowed[~given, d].all()]
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
        )
    ]


def place_model(
    model: str | Path | ir.Model,
    target: str | Path | BoxTarget,
    options: PlaceOptions | None = None,
    *,
    output: str | Path | None = None,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
    sensitivities: bool = False,
) -> PlacedModel:
    """Places the ops of a model, or of a training step of it, on the devices of a box.

    Args:
        model: as `compile_model`.
        target: name or path of a box, or a box.
        options: see `PlaceOptions`.
        output: the folder to write, whole or not at all; None writes nothing.
        force: replace `output` if it is an output folder already.
        progress: called with what happens next.
        sensitivities: also place for twice and half of each resource of the box; nothing of that
            is written.

    Raises:
        CompileError: MCM-D002 for a target that is no box, MCM-D010 to MCM-D012 for steps that the
            box cannot run, MCM-D030 to MCM-D036 for models without a training step. MCM-D070 to
            MCM-D078 from constraints, profiles and search, MCM-C### from cost models of devices.
            MCM-U002 for a kind with a profile and a cost model, MCM-U004 for arguments of other
            types. Nothing is left behind.
    """
    reclaim()
    model, output = arguments.model_argument(model), arguments.folder_argument(output)
    options = arguments.options_argument(options, PlaceOptions)
    arguments.refuse_uncallable(progress=progress)
    box = given_box(target)
    show = progress or silent
    # Unknown and contradictory options are refused before the model is read.
    _ = options.placer_text
    refuse_contradictions(box, options.times, options.cost_models)
    asked_at = option_place("--cost-model")
    box = with_device_costs(box, options.cost_models, user_files(Path()), asked_at)
    clock = Stopwatch()
    with staging(output, force) as stage, doing(doing_name(model)):
        show("import")
        step, found = _step(model, box, options, stage, show)
        source = SOURCE.get(step)
        clock.lap("import")
        states = STATES.find(step)
        pairs = states.pairs if states is not None else ()
        show("describe")
        box = calibrated_devices(with_profiles(box, options.times, step.graph), step.graph)

        def problem_of(one: BoxTarget) -> StepProblem:
            return constrained(one.step_problem(step, pairs), one.box, options)

        problem = problem_of(box)
        found += measured_notes(box, problem, step, options.times)
        bound = bound_step(problem, box.box)
        clock.lap("describe")
        answer, results, evaluator, every = search(problem, box, options, show)
        changes: tuple[StepChange, ...] = ()
        if sensitivities:
            show("sensitivities")

            def searched(one: StepProblem, host: BoxTarget) -> placers.PlacerAnswer:
                return search(one, host, options, silent)[0]

            answer, changes = step_changes(
                box, problem_of, searched, options.order, evaluator, answer
            )
            results = evaluator.evaluate(answer.device_of[None].astype(np.int32))
        least_s = float(results.seconds[0])
        if every is not None:
            least_s = min(least_s, every.seconds)
        refuse_refuted(problem, box.box, bound, least_s)
        bound = claimed_bound(bound if every is None else every.bound(bound), step.graph)
        trace = evaluator.trace(answer.device_of.astype(np.int32))
        clock.lap("search")
        show("segments")
        segments = None
        if options.segments != "none":
            segments = best_segments(
                box,
                problem,
                trace,
                runs_of(problem),
                options.segments,
                options.dispatch_s,
                StepConditions(order=options.order),
            )
            found += alone_note(problem, box.box, evaluator, segments, options.dispatch_s)
        placed = PlacedModel(
            source, step, pairs, box, options, problem, answer, results, trace, bound, segments,
            tuple(found), folder=output, changes=changes,
        )  # fmt: skip
        clock.lap("segments")
        if output is not None:
            show("write")
            write_folder(stage.path, placed)
            clock.lap("write")
    verdict = placed_headline(placement_record(placed), placed.segment_times)
    return replace(placed, timings=tuple(clock.laps), verdict=verdict)


def step_of_model(model: str, target: BoxTarget, options: PlaceOptions) -> ir.Model:
    """The step of a model as a placement begins with it, with its source and states.

    Args:
        model: a path, or `zoo:NAME`.
        target: a box.
        options: with sizes, states and what makes a training step.

    Raises:
        CompileError: as the importer and the pass.
    """
    with staging(None) as stage, doing(doing_name(model)):
        return _step(model, target, options, stage, silent)[0]


def _step(
    model: str | Path | ir.Model,
    box: BoxTarget,
    options: PlaceOptions,
    stage: StagingFolder,
    show: Callable[[str], None],
) -> tuple[ir.Model, list[Diagnostic]]:
    """The graph whose ops are placed, and its diagnostics."""
    asked = CompileOptions(
        dims=options.dims,
        shapes=options.shapes,
        trip_counts=options.trip_counts,
        state=options.state,
    )
    step, found = import_any(model, asked)
    if options.training is None:
        found += set_states(step, asked)
    else:
        manager = PassManager(parse_pipeline(options.training))
        # Passes that look at chips find none; what makes training steps does not.
        context = PassContext(cast("Target", box), asked, stage, found.append, show)
        manager.run(step, context, (STATES,))
    if assumed := assumed_trips(step.graph):
        found.append(assumption_warning(assumed))
    return step, found


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
