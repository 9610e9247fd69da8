"""`mcmc compile`: ONNX models in, a folder with one ONNX model per chip out for each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcm_compiler.cli import compile_options, show
from mcm_compiler.cli.parameters import parse_percentage
from mcm_compiler.cli.show import show_diagnostics
from mcm_compiler.cli.verb import FORCE, FORMAT, HTML, JUNIT, MODELS, TARGET, refuse_beside, verb
from mcm_compiler.options import CompileOptions
from mcm_compiler.processes.interruption import expect_one_output
from mcm_compiler.text.option_fields import asked

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.ci.batch import Job, Settings
    from mcm_compiler.cli.guard import Guard
    from mcm_compiler.pipeline.passes import Pass
    from mcm_compiler.results.compile_result import CompileResult

DEFAULT_REGRESSION = "3%"


@verb(
    (
        "compile zoo:resnet50 --target mcm36 --html",
        "compile model.onnx --dim batch=1 -O3 --budget 60s -o out",
        "compile models/ --baseline accepted --junit build.xml",
    )
)
def command(
    models: tuple[str, ...] = MODELS,
    output: Path | None = asked("path", "", "Folder to write.", short="-o", shown="MODEL.TARGET"),
    force: bool = FORCE,
    target: str = TARGET,
    options: CompileOptions = compile_options.compile_options(),
    profile: tuple[str, ...] = asked(
        "patterns", "Input", "Add a program for these sizes of dimensions; all programs of a "
        "folder share their weights. Repeatable; the first one places the weights.", (),
        metavar="NAME:DIM=N,...",
    ),
    print_after: tuple[str, ...] = compile_options.PRINT_AFTER,
    sensitivities: bool = asked(
        "flag", "", "Also show the effect of twice and half of each resource of the target, as "
        "--html does.",
    ),
    timings: bool = asked(
        "flag", "", "Print the time of each stage to stderr."
    ),
    assignment_out: Path | None = asked(
        "path", "", "Also write the chip of each op: JSON for a name in .json, else CSV."
    ),
    html: bool = HTML,
    strict: bool = asked(
        "flag", "", "Exit with 3 if anything was not verified or not proven, and with 1 if a state "
        "is lost.",
    ),
    junit: Path | None = JUNIT,
    baseline: Path | None = asked(
        "path", "", "Earlier report.json or output folder; fail if the throughput is lower."
    ),
    max_regression: float | None = asked(
        "percentage", "", "Loss of throughput that --baseline allows.", shown=DEFAULT_REGRESSION
    ),
    jobs: int = asked("whole", "", "Number of models compiled in parallel.", 1, low=1),
    output_format: str = FORMAT,
    *,
    plugin: tuple[Path, ...],
) -> int:  # fmt: skip
    """Compile MODEL, an ONNX file or zoo:NAME, for a package of chips.

    Writes a folder with one ONNX model per chip, a manifest and a report, and prints the report. A
    failed compile writes no folder.

    Several models, or a folder with *.onnx files at any depth, are compiled one by one into
    folders below OUTPUT, with one line each. A failure does not stop the others.
    """
    from mcm_compiler.artifact.layout import page_path
    from mcm_compiler.ci.batch import Settings
    from mcm_compiler.cli import output_files
    from mcm_compiler.cli.guard import Guard
    from mcm_compiler.variants.prepared_model import gives_figures

    if max_regression is None:
        max_regression = parse_percentage(DEFAULT_REGRESSION)
    elif baseline is None:
        raise click.UsageError("--max-regression needs --baseline")
    guard = Guard(junit, baseline, max_regression)
    sensitive = sensitivities or (html and gives_figures(options.passes))
    settings = Settings(target, options, force, strict, html, sensitive)
    if options.cost_model is not None:
        from mcm_compiler.measuring.times_files import machine_notes

        show_diagnostics(machine_notes(options.cost_model))
    first, *further = models
    many = bool(further) or os.path.isdir(first)
    if profile:
        if many:
            raise click.UsageError("--profile is for a single model")
        unfit = {
            "--sensitivities or --html": sensitivities or html or None,
            "--print-after": print_after or None,
            "--assignment-out": assignment_out,
            "--junit or --baseline": junit or baseline,
        }
        refuse_beside("--profile", unfit)
    if many:
        if output is None:
            raise click.UsageError("many models need -o, the folder for their output folders")
        unfit = {
            "--print-after": bool(print_after),
            "an assignment": assignment_out is not None or options.assignment is not None,
            "--input": options.input is not None,
        }
        for what in (what for what, given in unfit.items() if given):
            raise click.UsageError(f"{what} is for a single model")
        from mcm_compiler.cli.many_models import compile_many

        return compile_many(models, output, settings, guard, jobs, plugin, timings, output_format)
    folder = output if output is not None else default_folder(first, target)
    page = page_path(folder) if html else None
    output_files.refuse_same_file(
        {"--html": page, "--assignment-out": assignment_out, "--junit": junit}
    )
    for path in (assignment_out, page):
        if path is not None:
            output_files.refuse_existing(path, force)
    for path in (assignment_out, junit):
        if path is not None:
            output_files.refuse_inside_output(path, folder)
    return _compile_one(
        first, folder, settings, guard, profile, print_after, timings, assignment_out, output_format
    )


def _compile_one(
    model: str,
    folder: Path,
    settings: Settings,
    guard: Guard,
    profiles: tuple[str, ...],
    print_after: tuple[str, ...],
    timings: bool,
    assignment_out: Path | None,
    output_format: str,
) -> int:
    from mcm_compiler.ci.batch import Job, exit_code, failure, success, with_baseline

    # The new output may replace the baseline.
    before = guard.before(None)
    after_pass = compile_options.printer_after(print_after, settings.options)
    job, start = Job(model, folder), time.perf_counter()
    # What is left then takes moments: a signal that comes later comes too late.
    expect_one_output()
    try:
        results = _results(job, settings, profiles, after_pass)
    except Exception as error:
        guard.report([failure(job, error, start)], settings)
        raise
    compiled = [success(job, result, start, settings.strict) for result in results.values()]
    for one in compiled:
        show_diagnostics(one.diagnostics)
    reports = {name: one.report or {} for name, one in zip(results, compiled, strict=True)}
    if output_format == "json":
        show.show_json(reports if profiles else reports[""])
    else:
        for name, report in reports.items():
            if profiles:
                click.echo(f"profile {name}")
            show.show_report(report, full=False)
    if timings:
        for result in results.values():
            show.show_timings(result.timings)
    show.wrote(folder)
    if settings.html:
        from mcm_compiler.page.folder_page import write_page_beside

        show.wrote(write_page_beside(folder))
    if assignment_out is not None:
        _write_assignment(assignment_out, results[""])
    if output_format != "json":
        show.show_next_steps(folder)
    outcomes = [with_baseline(one, before) for one in compiled]
    show_diagnostics(outcomes[0].diagnostics[len(compiled[0].diagnostics) :])
    if (comparison := outcomes[0].comparison) is not None:
        from mcm_compiler.ci.comparison import change_text

        click.echo(f"throughput {change_text(comparison)} against the baseline", err=True)
    guard.report(outcomes, settings)
    return exit_code(outcomes)


def _results(
    job: Job,
    settings: Settings,
    texts: tuple[str, ...],
    after_pass: Callable[[Pass, ir.Model], None] | None,
) -> dict[str, CompileResult]:
    """Results by profile; of a compile without profiles by an empty name."""
    from mcm_compiler.api import compile_model

    asked = job.model, settings.target, settings.options
    with show.progress_line(quiet=after_pass is not None) as progress:
        written: Any = {"output": job.folder, "force": settings.force, "progress": progress}
        if texts:
            from mcm_compiler.profiles import compile_profiles, parse_profiles

            profiles = parse_profiles(texts, settings.options.dims)
            found = compile_profiles(*asked, profiles, **written)
            return {one.name: result for one, result in zip(profiles, found, strict=True)}
        changes = settings.sensitivities
        return {"": compile_model(*asked, after_pass=after_pass, sensitivities=changes, **written)}


def _write_assignment(path: Path, result: CompileResult) -> None:
    from mcm_compiler.cli.output_files import write_assignment
    from mcm_compiler.placements.assignment_file import chip_of_op

    if result.problem is not None and result.partition is not None:
        write_assignment(path, chip_of_op(result.problem, result.partition), "chip")
        show.wrote(path)


def default_folder(model: str, target: str) -> Path:
    """`resnet50.mcm36` for `models/resnet50.onnx` or `zoo:resnet50{seed=1}`, here."""
    from mcm_compiler.contracts import zoo

    if model.startswith(zoo.PREFIX):
        stem = model.removeprefix(zoo.PREFIX).partition("{")[0].strip() or "zoo"
    else:
        stem = Path(model).stem or "model"
    package = Path(target).stem if target.endswith(".toml") else Path(target).name
    return Path(f"{stem}.{package}")
