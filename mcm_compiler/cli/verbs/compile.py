"""`mcmc compile`: ONNX models in, a folder with one ONNX model per chip out for each."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcm_compiler.cli.compile_options import (
    compile_options,
    printer_after,
    progress_line,
    show_timings,
)
from mcm_compiler.cli.completed_names import complete_models, names_of
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.parameters import FILE, force_option, format_option, parse_percentage
from mcm_compiler.cli.show import show_json, show_report
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from mcm_compiler.ci.batch import Settings
    from mcm_compiler.cli.guard import Guard
    from mcm_compiler.options import CompileOptions

DEFAULT_REGRESSION = "3%"


EXAMPLES = """\b
Examples:
  mcmc compile zoo:resnet50 --target mcm36 --html
  mcmc compile model.onnx --dim batch=1 -O3 --budget 60s -o out
  mcmc compile models/ --baseline accepted --junit build.xml
"""


@click.command(cls=Verb, epilog=EXAMPLES)
@click.argument(
    "models", metavar="MODEL...", nargs=-1, required=True, shell_complete=complete_models
)
@click.option("-o", "--output", type=FILE, default=None, help="Folder to write (MODEL.TARGET).")
@force_option
@compile_options
@click.option(
    "--print-after",
    multiple=True,
    shell_complete=names_of("PASSES", "all"),
    help="Print the model after this pass, or 'all'.",
)
@click.option(
    "--sensitivities",
    is_flag=True,
    help="Also tell what twice and half of each resource of the target would bring (as --html "
    "does).",
)
@click.option("--timings", is_flag=True, help="Print the seconds of each stage to stderr.")
@click.option(
    "--assignment-out",
    type=FILE,
    default=None,
    help="Write the chip of each op, too: CSV, or JSON to a name that ends in .json.",
)
@click.option(
    "--html", is_flag=True, help="Write a page to look at, too: OUTPUT.html, beside the folder."
)
@click.option(
    "--strict", is_flag=True, help="Exit with 3 where something was not verified or not proven."
)
@click.option("--junit", type=FILE, default=None, help="Write a JUnit XML file, too.")
@click.option(
    "--baseline",
    type=FILE,
    default=None,
    help="Earlier report.json or output folder; a lower throughput is a failure.",
)
@click.option(
    "--max-regression",
    type=parse_percentage,
    default=None,
    metavar="PERCENT",
    help=f"Fall of throughput that --baseline allows ({DEFAULT_REGRESSION}).",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Models that are compiled at once.",
)
@format_option()
@click.pass_context
def command(
    ctx: click.Context,
    models: tuple[str, ...],
    target: str,
    output: Path | None,
    force: bool,
    options: CompileOptions,
    print_after: tuple[str, ...],
    sensitivities: bool,
    timings: bool,
    assignment_out: Path | None,
    html: bool,
    strict: bool,
    junit: Path | None,
    baseline: Path | None,
    max_regression: float | None,
    jobs: int,
    output_format: str,
) -> None:
    """Compile MODEL, an ONNX file or zoo:NAME, for a package of chips.

    Writes a folder with one ONNX model per chip, a manifest and a report, whole or not at all,
    and prints the report.

    Several models, or a folder with *.onnx files at any depth, are compiled one by one into
    folders below OUTPUT, with a line each. One that fails does not stop the others.
    """
    from mcm_compiler.artifact.layout import page_path
    from mcm_compiler.ci.batch import Settings
    from mcm_compiler.cli.failures import diagnosed
    from mcm_compiler.cli.guard import Guard
    from mcm_compiler.cli.output_files import (
        refuse_existing,
        refuse_inside_output,
        refuse_same_file,
    )
    from mcm_compiler.variants.prepared_model import gives_figures

    if max_regression is not None and baseline is None:
        raise click.UsageError("--max-regression needs --baseline")
    allowed = parse_percentage(DEFAULT_REGRESSION) if max_regression is None else max_regression
    guard = Guard(junit, baseline, allowed)
    told = sensitivities or (html and gives_figures(options.passes))
    settings = Settings(target, options, force, diagnosed, strict, html, told)
    first, *further = models
    if further or os.path.isdir(first):
        if output is None:
            raise click.UsageError("many models need -o, the folder for their output folders")
        if print_after:
            raise click.UsageError("--print-after is for a single model")
        if assignment_out is not None or options.assignment is not None:
            raise click.UsageError("an assignment is for a single model")
        if options.input is not None:
            raise click.UsageError("--input is for a single model")
        from mcm_compiler.cli.many_models import compile_many

        plugins: tuple[Path, ...] = ctx.params["plugin"]
        code = compile_many(models, output, settings, guard, jobs, plugins, timings, output_format)
    else:
        folder = output if output is not None else default_folder(first, target)
        page = page_path(folder) if html else None
        refuse_same_file({"--html": page, "--assignment-out": assignment_out, "--junit": junit})
        for path in (assignment_out, page):
            if path is not None:
                refuse_existing(path, force)
        for path in (assignment_out, junit):
            if path is not None:
                refuse_inside_output(path, folder)
        code = _compile_one(
            first, folder, settings, guard, print_after, timings, assignment_out, output_format
        )
    if code:
        ctx.exit(code)


def _compile_one(
    model: str,
    folder: Path,
    settings: Settings,
    guard: Guard,
    print_after: tuple[str, ...],
    timings: bool,
    assignment_out: Path | None,
    output_format: str,
) -> int:
    from mcm_compiler.api import compile_model
    from mcm_compiler.ci.batch import Job, exit_code, failure, success
    from mcm_compiler.cli.output_files import write_assignment
    from mcm_compiler.processes.interruption import expect_one_output

    # The new output may replace the baseline.
    before = guard.before(None)
    after_pass = printer_after(print_after, settings.options)
    start = time.perf_counter()
    # What is left then takes moments: a signal that comes later comes too late.
    expect_one_output()
    try:
        with progress_line(quiet=after_pass is not None) as progress:
            result = compile_model(
                model,
                settings.target,
                settings.options,
                output=folder,
                force=settings.force,
                progress=progress,
                after_pass=after_pass,
                sensitivities=settings.sensitivities,
            )
    except Exception as error:
        if guard.reports():
            guard.report([failure(Job(model, folder), settings.diagnose(error), start)], settings)
        raise
    compiled = success(Job(model, folder), result, start, settings.strict)
    show_diagnostics(compiled.diagnostics)
    if output_format == "json":
        show_json(compiled.report)
    else:
        show_report(compiled.report or {})
    if timings:
        show_timings(result.timings)
    click.echo(f"wrote {printable(str(folder))}", err=True)
    if settings.html:
        from mcm_compiler.page.folder_page import write_page_beside

        click.echo(f"wrote {printable(str(write_page_beside(folder)))}", err=True)
    if assignment_out is not None and result.problem is not None and result.partition is not None:
        from mcm_compiler.placements.assignment_file import chip_of_op

        write_assignment(assignment_out, chip_of_op(result.problem, result.partition), "chip")
        click.echo(f"wrote {printable(str(assignment_out))}", err=True)
    outcome = guard.compared(compiled, before, None)
    show_diagnostics(outcome.diagnostics[len(compiled.diagnostics) :])
    if outcome.comparison is not None:
        from mcm_compiler.ci.comparison import change_text

        change = change_text(outcome.comparison)
        click.echo(f"throughput {change} against the baseline", err=True)
    guard.report([outcome], settings)
    return exit_code([outcome])


def default_folder(model: str, target: str) -> Path:
    """`resnet50.mcm36` for `models/resnet50.onnx` or `zoo:resnet50{seed=1}`, here."""
    from mcm_compiler.contracts import zoo

    if model.startswith(zoo.PREFIX):
        stem = model.removeprefix(zoo.PREFIX).partition("{")[0].strip() or "zoo"
    else:
        stem = Path(model).stem or "model"
    package = Path(target).stem if target.endswith(".toml") else Path(target).name
    return Path(f"{stem}.{package}")
