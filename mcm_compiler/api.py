"""The compiler as a Python function."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from mcm_compiler.processes.lazy_libraries import loading_lazily

with loading_lazily():
    import onnx_ir as ir

from mcm_compiler.arguments import (
    folder_argument,
    model_argument,
    options_argument,
    refuse_uncallable,
)
from mcm_compiler.artifact import layout
from mcm_compiler.artifact.emit import finish_folder
from mcm_compiler.certificate.files import write_certificate
from mcm_compiler.components.cost_choice import TakesCostModel, choice_of
from mcm_compiler.components.target_loading import given_box, given_target, load_target
from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES
from mcm_compiler.contracts.fabrics.target import MAPPED_CHIPS
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import LEGALIZATION, PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.program import PROGRAM
from mcm_compiler.contracts.replication import REPLICATION, Placement
from mcm_compiler.contracts.simulation import SIMULATION
from mcm_compiler.contracts.target import Target
from mcm_compiler.contracts.verification import EMITTED, VERIFICATION
from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.execution.npz_inputs import GivenInputs, read_npz
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.graph.states import STATES, States, find_states, recorded_states
from mcm_compiler.graph.trip_counts import (
    assumed_trips,
    assumption_warning,
    sequence_counts,
    state_trip_counts,
)
from mcm_compiler.ir.reading.importer import import_model, import_onnx
from mcm_compiler.ir.shapes.counted_trips import counted_trips
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.pipeline.pipeline_text import parse_pipeline, print_pipeline
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.processes.garbage import give_back, reclaim
from mcm_compiler.processes.staging import StagingFolder, staging
from mcm_compiler.report.hardware.figures import package_figures
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.records.report import Report
from mcm_compiler.report.report_data import build_report
from mcm_compiler.results.compile_result import CompileResult
from mcm_compiler.text import json_text
from mcm_compiler.variants.points import Prepared, described, placement_of
from mcm_compiler.variants.prepared_model import Keeper, split_pipeline
from mcm_compiler.variants.sensitivities import Sensitivities

if TYPE_CHECKING:
    from mcm_compiler.contracts.boxes.box import BoxTarget
    from mcm_compiler.placed.place_options import PlaceOptions
    from mcm_compiler.placed.placed_model import PlacedModel

RESULT_FACTS: tuple[AnyKey, ...] = (
    PARTITION_PROBLEM,
    PARTITION,
    LEGALIZATION,
    CHIP_MODELS,
    WIRES,
    MAPPED_CHIPS,
    PROGRAM,
    SIMULATION,
    EMITTED,
    VERIFICATION,
    REPLICATION,
)
"""Facts that a compile returns; they are about the graph after the last pass."""

__all__ = [
    "CompileResult",
    "build_zoo_model",
    "compile_model",
    "import_named",
    "load_target",
    "place_model",
    "prepare_model",
    "run_passes",
]


def compile_model(
    model: str | Path | ir.Model,
    target: str | Path | Target = "mcm36",
    options: CompileOptions | None = None,
    *,
    output: str | Path | None = None,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
    after_pass: Callable[[Pass, ir.Model], None] | None = None,
    sensitivities: bool = False,
) -> CompileResult:
    """Compiles a model for a package of chips.

    Args:
        model: a path, `zoo:NAME` with options as in `zoo:bert{layers=4}`, or a model in memory
            (left unchanged).
        target: a name, a path of a TOML description, or a target.
        options: see `CompileOptions`.
        output: the folder to write, whole or not at all; None writes nothing.
        force: replace `output` if it is an output folder already.
        progress: called with the name of each stage as it begins.
        after_pass: called after each pass.
        sensitivities: also compile for twice and half of each resource of the target, without
            writing or verifying anything, in processes of their own.

    Returns:
        All results; `folder` is `output`.

    Raises:
        CompileError: with all diagnostics of the stage that failed, MCM-U004 for arguments of other
            types; nothing is left behind.
    """
    reclaim()
    model, output = model_argument(model), folder_argument(output)
    options = options_argument(options, CompileOptions)
    refuse_uncallable(progress=progress, after_pass=after_pass)
    load_level(options.level)  # an unknown one is told before anything is read
    loaded = given_target(target)
    package = described(loaded, options)
    pipeline = parse_pipeline(options.passes)
    keeper = None
    if sensitivities:
        keeper = Keeper(split_pipeline(pipeline, options.passes, "--sensitivities"), after_pass)
    manager = PassManager(pipeline, after_pass if keeper is None else keeper.after)
    facts = manager.check()
    if output is not None and EMITTED.name not in facts:
        raise CompileError(
            Diagnostic(
                "MCM-U006",
                "an output folder is asked for, but no pass of the pipeline writes one",
                at=f"'{options.passes}'",
                hint="end the pipeline with split,lower,simulate,emit,verify",
            )
        )
    with staging(output, force) as stage, doing(_named(model)):
        compiled, found, timings, package = _run(
            model, package, options, manager, stage, progress, _Extra(RESULT_FACTS, keeper)
        )
        rows = None
        if keeper is not None:
            (progress or _silent)("sensitivities")
            clock = _Stopwatch()
            base, asked = loaded, options
            if (choice := choice_of(package)) is not None:
                # With its factor: what the rows say of this target holds for the changed ones.
                base = cast("TakesCostModel", loaded).with_cost_model(choice)
                asked = replace(options, cost_model=None)
            prepared = Prepared(keeper.model, keeper.passes, asked)
            now = package_figures(SIMULATION.find(compiled), None, REPLICATION.find(compiled))
            changed = Sensitivities(prepared, base)
            if (known := changed.compile(now.period_s, placement_of(compiled))) is not None:
                stage.clear()
                manager = PassManager(pipeline, after_pass)
                extra = _Extra(RESULT_FACTS, known=(known,))
                compiled, found, timings, package = _run(
                    model, package, options, manager, stage, progress, extra
                )
                now = package_figures(SIMULATION.find(compiled), None, REPLICATION.find(compiled))
                changed.compile(now.period_s, placement_of(compiled))
            rows = changed.rows(now.period_s)
            clock.lap("sensitivities")
            timings = [*timings, *clock.laps]
        result = CompileResult(
            source=SOURCE.get(compiled),
            target=package,
            options=options,
            pipeline=print_pipeline(pipeline),
            model=compiled,
            problem=PARTITION_PROBLEM.find(compiled),
            partition=PARTITION.find(compiled),
            chips=CHIP_MODELS.find(compiled),
            wires=WIRES.find(compiled),
            program=PROGRAM.find(compiled),
            simulation=SIMULATION.find(compiled),
            verification=VERIFICATION.find(compiled),
            diagnostics=tuple(found),
            timings=tuple(timings),
            folder=output,
            replication=REPLICATION.find(compiled),
            sensitivities=None if rows is None else tuple(rows),
        )
        if output is not None:
            result = replace(result, report=_finish(stage, result))
    return result


def prepare_model(
    model: str | Path | ir.Model, target: Target, options: CompileOptions
) -> Prepared:
    """A model behind the passes that are the same for all targets.

    Args:
        model: as `compile_model`.
        target: any; no pass that runs looks at it.
        options: see `CompileOptions`.

    Raises:
        CompileError: as `compile_model`, and MCM-U060 for a pipeline that simulates nothing.
    """
    split = split_pipeline(parse_pipeline(options.passes), options.passes, "a comparison")
    with staging(None) as stage, doing(_named(model)):
        manager = PassManager(split.shared)
        prepared, *_ = _run(model, target, options, manager, stage, None)
    return Prepared(prepared, split.own, options)


def run_passes(
    model: str | Path | ir.Model,
    target: str | Path | Target = "mcm36",
    options: CompileOptions | None = None,
    *,
    progress: Callable[[str], None] | None = None,
    after_pass: Callable[[Pass, ir.Model], None] | None = None,
) -> tuple[ir.Model, tuple[Diagnostic, ...], tuple[tuple[str, float], ...]]:
    """Runs the pipeline of `options` and returns the model as the last pass left it.

    Returns:
        The model, the warnings and notes, and `(stage, seconds)`.

    Raises:
        CompileError: as `compile_model`.
    """
    model, options = model_argument(model), options_argument(options, CompileOptions)
    refuse_uncallable(progress=progress, after_pass=after_pass)
    package = described(given_target(target), options)
    manager = PassManager(parse_pipeline(options.passes), after_pass)
    manager.check()
    with staging(None) as stage, doing(_named(model)):
        compiled, found, timings, _ = _run(model, package, options, manager, stage, progress)
    return compiled, tuple(found), tuple(timings)


def place_model(
    model: str | Path | ir.Model,
    target: str | Path | BoxTarget,
    options: PlaceOptions | None = None,
    *,
    output: str | Path | None = None,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> PlacedModel:
    """Places the ops of a model, or of a training step of it, on the devices of a box.

    Args:
        model: as `compile_model`.
        target: name or path of a box, or a box.
        options: see `PlaceOptions`.
        output: the folder to write, whole or not at all; None writes nothing.
        force: replace `output` if it is an output folder already.
        progress: called with what happens next.

    Raises:
        CompileError: MCM-D002 for a target that is no box, MCM-D010 to MCM-D012 for steps that the
            box cannot run, MCM-D030 to MCM-D036 for models without a training step. MCM-D070 to
            MCM-D078 from constraints, profiles and search, MCM-C### from cost models of devices.
            MCM-U002 for a kind with a profile and a cost model, MCM-U004 for arguments of other
            types. Nothing is left behind.
    """
    from mcm_compiler.components.cost_files import user_files
    from mcm_compiler.components.device_costs import (
        calibrated_devices,
        option_place,
        with_device_costs,
    )
    from mcm_compiler.contracts.boxes.bounds import bound_step, claimed_bound, refuse_refuted
    from mcm_compiler.contracts.boxes.evaluation import StepConditions
    from mcm_compiler.placed.constraints import constrained
    from mcm_compiler.placed.folder_writing import write_folder
    from mcm_compiler.placed.measured_times.coverage import measured_notes
    from mcm_compiler.placed.measured_times.profile_tables import (
        refuse_contradictions,
        with_profiles,
    )
    from mcm_compiler.placed.one_device import alone_note
    from mcm_compiler.placed.place_options import PlaceOptions
    from mcm_compiler.placed.placed_model import PlacedModel, runs_of
    from mcm_compiler.placed.segments import best_segments
    from mcm_compiler.placed.step_placing import placer_text, search

    reclaim()
    model, output = model_argument(model), folder_argument(output)
    options = options_argument(options, PlaceOptions)
    refuse_uncallable(progress=progress)
    box = given_box(target)
    show = progress or _silent
    # What is unknown or contradicts itself is told before the model is read.
    placer_text(options)
    refuse_contradictions(box, options.times, options.cost_models)
    asked_at = option_place("--cost-model")
    box = with_device_costs(box, options.cost_models, user_files(Path()), asked_at)
    clock = _Stopwatch()
    with staging(output, force) as stage, doing(_named(model)):
        show("import")
        step, found = _step(model, box, options, stage, show)
        source = SOURCE.get(step)
        clock.lap("import")
        states = STATES.find(step)
        pairs = states.pairs if states is not None else ()
        show("describe")
        box = calibrated_devices(with_profiles(box, options.times, step.graph), step.graph)
        problem = constrained(box.step_problem(step, pairs), box.box, options)
        found += measured_notes(box, problem, step, options.times)
        bound = bound_step(problem, box.box)
        clock.lap("describe")
        answer, results, evaluator, every = search(problem, box, options, show)
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
            tuple(found), folder=output,
        )  # fmt: skip
        clock.lap("segments")
        if output is not None:
            show("write")
            write_folder(stage.path, placed)
            clock.lap("write")
    return replace(placed, timings=tuple(clock.laps))


def step_of_model(model: str, target: BoxTarget, options: PlaceOptions) -> ir.Model:
    """The step of a model as a placement begins with it, with its source and states.

    Args:
        model: a path, or `zoo:NAME`.
        target: a box.
        options: with sizes, states and what makes a training step.

    Raises:
        CompileError: as the importer and the pass.
    """
    with staging(None) as stage, doing(_named(model)):
        return _step(model, target, options, stage, _silent)[0]


def import_named(
    model: str, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[ir.Model, list[Diagnostic]]:
    """The model of a path or of `zoo:NAME`, as a compile begins with it, and what was noticed.

    Raises:
        CompileError: as the importer, and MCM-U001 to MCM-U003 for a name of the zoo.
    """
    return _import(model, CompileOptions(dims=dims, shapes=shapes))


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
    step, found = _import(model, asked)
    if options.training is None:
        found += _with_states(step, asked)
    else:
        manager = PassManager(parse_pipeline(options.training))
        # Passes that look at chips find none; what makes training steps does not.
        context = PassContext(cast("Target", box), asked, stage, found.append, show)
        manager.run(step, context, (STATES,))
    if assumed := assumed_trips(step.graph):
        found.append(assumption_warning(assumed))
    return step, found


class _Extra(NamedTuple):
    """Further inputs of some compiles: facts, the model for other targets, and starts."""

    wanted: Sequence[AnyKey] = ()
    keeper: Keeper | None = None
    known: tuple[Placement, ...] = ()


_NO_EXTRA = _Extra()


def _run(
    model: str | Path | ir.Model,
    target: Target,
    options: CompileOptions,
    manager: PassManager,
    stage: StagingFolder,
    progress: Callable[[str], None] | None,
    extra: _Extra = _NO_EXTRA,
) -> tuple[ir.Model, list[Diagnostic], list[tuple[str, float]], Target]:
    show = progress or _silent
    start = time.perf_counter()
    show("import")
    with doing("import"):
        compiled, found = _import(model, options)
        found += _with_states(compiled, options)
    imported = ("import", time.perf_counter() - start)
    context = PassContext(target, options, stage, found.append, show, extra.known)
    if extra.keeper is not None:
        extra.keeper.begin(compiled)
    give_back()
    try:
        manager.run(compiled, context, extra.wanted)
    except CompileError as error:
        # What was noticed on the way often tells why.
        raise CompileError([*error.diagnostics, *found]) from error.__cause__
    return compiled, found, [imported, *manager.timings], context.target


def _with_states(model: ir.Model, options: CompileOptions) -> list[Diagnostic]:
    """Sets `STATES` where the model has any; returns notes, and MCM-P059 where none is asked for.

    Raises:
        CompileError: MCM-P050 and MCM-P051 for states of the user that cannot be.
    """
    asked = options.state if options.state is not None else recorded_states(model)
    pairs, told = find_states(model.graph, asked)
    if any(one.severity is Severity.ERROR for one in told):
        raise CompileError(told)
    if pairs:
        STATES.set(model, States(pairs, options.sequences or 1))
    elif options.sequences is not None:
        message = (
            f"room for {options.sequences} sequences is asked for, and the model has no states"
        )
        hint = "name states with --state, or leave --sequences out"
        told.append(
            Diagnostic("MCM-P059", message, "option sequences", hint, severity=Severity.WARNING)
        )
    return told


def _named(model: str | Path | ir.Model) -> str:
    name = model.graph.name or "" if isinstance(model, ir.Model) else model
    return f"model {quote(str(name))}"


class _Stopwatch:
    """Wall time of stages, one after another."""

    def __init__(self) -> None:
        self.laps: list[tuple[str, float]] = []
        self._start = time.perf_counter()

    def lap(self, name: str) -> None:
        """Ends a stage."""
        now = time.perf_counter()
        self.laps.append((name, now - self._start))
        self._start = now


def _silent(_line: str) -> None:
    """Takes progress that nobody wants to see."""


def _import(
    model: str | Path | ir.Model, options: CompileOptions
) -> tuple[ir.Model, list[Diagnostic]]:
    given = None
    if options.input is not None:
        given = GivenInputs(options.input, read_npz(Path(options.input)))
    if isinstance(model, ir.Model):
        name = str(model.graph.name or "model")
        imported, found = import_model(model, name, options.dims, options.shapes, given)
    elif isinstance(model, str) and model.startswith(zoo.PREFIX):
        built = build_zoo_model(model.removeprefix(zoo.PREFIX))
        imported, found = import_model(built, model, options.dims, options.shapes, given)
    else:
        imported, found = import_onnx(Path(model), options.dims, options.shapes, given)
    return imported, [*found, *_with_trip_counts(imported, options)]


def _with_trip_counts(model: ir.Model, options: CompileOptions) -> list[Diagnostic]:
    """States trip counts of loops: those of the options, then those of a run with the given data.

    Raises:
        CompileError: MCM-I056 for a count of no loop, or one that the graph contradicts.
    """
    source, notes = SOURCE.get(model), list[Diagnostic]()
    graphs = (source.original.graph, model.graph)
    known = sequence_counts(source.original.graph)
    state_trip_counts(graphs, known | dict(options.trip_counts))
    if source.given:
        try:
            counted = counted_trips(source.original, source.given)
        except CompileError as error:
            notes += [replace(one, severity=Severity.WARNING) for one in error.diagnostics]
        else:
            state_trip_counts(graphs, counted | known | dict(options.trip_counts))
    return notes


def _finish(stage: StagingFolder, result: CompileResult) -> Report:
    """Writes what describes the whole folder, and returns the report."""
    if (certificate := result.certificate) is not None:
        write_certificate(stage.path, certificate)
    report = build_report(result)
    json_text.write(stage.path / layout.REPORT, report)
    text = render_markdown(report)
    (stage.path / layout.REPORT_TEXT).write_bytes(text.encode("utf-8", "backslashreplace"))
    finish_folder(stage.path, result.manifest)
    return report
