"""The compiler as a Python function."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

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
from mcm_compiler.components.target_loading import described, given_target, load_target
from mcm_compiler.contracts.chips import CHIP_MODELS, MAPPED_CHIPS, WIRES
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import LEGALIZATION, PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.contracts.replication import REPLICATION, Placement
from mcm_compiler.contracts.target import Target
from mcm_compiler.contracts.verification import EMITTED, VERIFICATION
from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.diagnostics.deprecations import removed_with
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.model_import import doing_name, import_any, import_named, set_states
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager, Stopwatch, silent
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext, parse_pipeline, print_pipeline
from mcm_compiler.placements.steps_of_decoders import missed_limits, step_of_model
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.processes.garbage import give_back, reclaim
from mcm_compiler.processes.staging import StagingFolder, staging
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.report_data import build_report, recorded
from mcm_compiler.results.compile_result import CompileResult
from mcm_compiler.text import json_text

if TYPE_CHECKING:
    from mcm_compiler.report.records.report import Report
    from mcm_compiler.results.size_rows import SizeRow
    from mcm_compiler.variants.points import Prepared
    from mcm_compiler.variants.prepared_model import Keeper

RESULT_FIELDS: dict[str, AnyKey] = {
    "problem": PARTITION_PROBLEM,
    "partition": PARTITION,
    "chips": CHIP_MODELS,
    "wires": WIRES,
    "program": PROGRAM,
    "simulation": SIMULATION,
    "verification": VERIFICATION,
    "replication": REPLICATION,
}
"""Facts that a compile returns, by the field of `CompileResult`."""

RESULT_FACTS: tuple[AnyKey, ...] = (*RESULT_FIELDS.values(), LEGALIZATION, MAPPED_CHIPS, EMITTED)
"""Facts that a compile keeps; they are about the graph after the last pass."""

__all__ = [
    "CompileResult",
    "build_zoo_model",
    "compile_model",
    "import_named",
    "load_target",
    "prepare_model",
    "run_passes",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name == "place_model":  # of a product of its own, loaded when asked for
        message = f"mcm_compiler.api.place_model is {removed_with('place_model')}"
        warnings.warn(f"{message}; take mcm_compiler.place", DeprecationWarning, stacklevel=2)
        return importlib.import_module("mcm_compiler.placed.placing").place_model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
        from mcm_compiler.variants.prepared_model import Keeper, split_pipeline

        keeper = Keeper(split_pipeline(pipeline, options.passes, "--sensitivities"), after_pass)
    facts = PassManager(pipeline).check()
    if output is not None and EMITTED.name not in facts:
        raise CompileError.of(
            "MCM-U006",
            "an output folder is asked for, but no pass of the pipeline writes one",
            at=f"'{options.passes}'",
        )
    with staging(output, force) as stage, doing(doing_name(model)):

        def run(options: CompileOptions, extra: _Extra) -> _Ran:
            after = after_pass if extra.keeper is None else extra.keeper.after
            manager = PassManager(pipeline, after)
            return _run(model, package, options, manager, stage, progress, extra)

        compiled, found, timings, package = run(options, _Extra(RESULT_FACTS, keeper))
        if options.serve and (missed := missed_limits(compiled, options.serve)) is not None:
            options = _within(options, compiled, missed)
            stage.clear()
            try:
                compiled, found, timings, package = run(options, _Extra(RESULT_FACTS))
            except CompileError as error:
                raise CompileError([missed, *error.diagnostics]) from error
            if (missed := missed_limits(compiled, options.serve or {})) is not None:
                raise CompileError([missed])
        rows = None
        if keeper is not None:
            from mcm_compiler.variants.points import Prepared, chosen_as, compiled_point
            from mcm_compiler.variants.sensitivities import Sensitivities

            (progress or silent)("sensitivities")
            clock = Stopwatch()
            base, asked = loaded, options
            if (choice := choice_of(package)) is not None:
                # With its factor: what the rows say of this target holds for the changed ones.
                base = cast("TakesCostModel", loaded).with_cost_model(choice)
                asked = replace(options, cost_model=None)
            changed = Sensitivities(Prepared(keeper.model, keeper.passes, asked), base)
            now = compiled_point(compiled, package)
            if (start := changed.settle(now)) is not None:
                stage.clear()
                way = chosen_as(Prepared(keeper.model, pipeline, options), package, start)
                pipeline, options = way.passes, way.options
                package = described(loaded, options)
                compiled, found, timings, package = run(
                    options, _Extra(RESULT_FACTS, known=(start,))
                )
                now = compiled_point(compiled, package, start)
            rows = changed.rows(now)
            clock.lap("sensitivities")
            timings = [*timings, *clock.laps]
        sizes: list[SizeRow] = []
        if options.serve or options.context:
            from mcm_compiler.variants.decoder_sizes import Decoder

            shared = takewhile(lambda one: not one.looks_at_target, pipeline)
            (progress or silent)("batches and contexts")
            sizes = Decoder(model, compiled, [*shared], options, package).rows()
        result = CompileResult(
            source=SOURCE.get(compiled),
            target=package,
            options=options,
            pipeline=print_pipeline(pipeline),
            model=compiled,
            **{name: key.find(compiled) for name, key in RESULT_FIELDS.items()},
            diagnostics=tuple(found),
            timings=tuple(timings),
            folder=output,
            sensitivities=None if rows is None else tuple(rows),
            sizes=tuple(sizes),
        )
        report = build_report(result) if output is None else _finish(stage, result)
    return replace(result, report=report)


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
    from mcm_compiler.variants.points import Prepared
    from mcm_compiler.variants.prepared_model import split_pipeline

    split = split_pipeline(parse_pipeline(options.passes), options.passes, "a comparison")
    with staging(None) as stage, doing(doing_name(model)):
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
    with staging(None) as stage, doing(doing_name(model)):
        compiled, found, timings, _ = _run(model, package, options, manager, stage, progress)
    return compiled, tuple(found), tuple(timings)


def _within(options: CompileOptions, model: ir.Model, missed: Diagnostic) -> CompileOptions:
    """Options that ask for steps within the limits of the option `serve`.

    Raises:
        CompileError: `missed`, where no choice is left.
    """
    step = step_of_model(model)
    if step is None or not options.goal.plain or options.assignment is not None:
        raise CompileError([missed])
    return replace(options, max_latency_s=step.limit_s(options.serve))


class _Extra(NamedTuple):
    """Further inputs of some compiles: facts, the model for other targets, and starts."""

    wanted: Sequence[AnyKey] = ()
    keeper: Keeper | None = None
    known: tuple[Placement, ...] = ()


_NO_EXTRA = _Extra()

_Ran = tuple[ir.Model, list[Diagnostic], list[tuple[str, float]], Target]
"""The model, what was noticed, seconds of stages, and the target that was used."""


def _run(
    model: str | Path | ir.Model,
    target: Target,
    options: CompileOptions,
    manager: PassManager,
    stage: StagingFolder,
    progress: Callable[[str], None] | None,
    extra: _Extra = _NO_EXTRA,
) -> _Ran:
    show = progress or silent
    start = time.perf_counter()
    show("import")
    with doing("import"):
        compiled, found = import_any(model, options)
        found += set_states(compiled, options)
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


def _finish(stage: StagingFolder, result: CompileResult) -> Report:
    """Writes what describes the whole folder, and returns the report."""
    if (certificate := result.certificate) is not None:
        write_certificate(stage.path, certificate)
    report = write_report(stage.path, result)
    finish_folder(stage.path, recorded(result.manifest, report))
    return report


def write_report(folder: Path, result: CompileResult) -> Report:
    """Writes the report of a result in both forms, and returns it."""
    report = build_report(result)
    json_text.write(folder / layout.REPORT, report)
    text = render_markdown(report)
    (folder / layout.REPORT_TEXT).write_bytes(text.encode("utf-8", "backslashreplace"))
    return report
