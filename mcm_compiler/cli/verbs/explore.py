"""`mcmc explore`: models on many variants of a target, and the Pareto front."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from mcm_compiler.cli.compile_options import compile_options, progress_line
from mcm_compiler.cli.completed_names import complete_models
from mcm_compiler.cli.failures import Verb, show_diagnostics
from mcm_compiler.cli.parameters import FILE, force_option, format_option
from mcm_compiler.cli.show import show_json, show_table
from mcm_compiler.exploration.journal import Exploration, Measure, journal_path
from mcm_compiler.text.units import printable

if TYPE_CHECKING:
    from mcm_compiler.options import CompileOptions

MEASURES: tuple[Measure, ...] = get_args(Measure)


@click.command(cls=Verb)
@click.argument(
    "models", metavar="MODEL...", nargs=-1, required=True, shell_complete=complete_models
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    required=True,
    metavar="KEY=VALUES",
    help="Values of a key of the target's description, such as chip.sram_mib=16,32,64 or "
    "package.num_chips=4..36:8. Repeatable; all combinations are compiled.",
)
@click.option(
    "--front",
    default=None,
    metavar="MEASURE,...",
    help=f"What the front is of: some of {', '.join(MEASURES)} (all that is known).",
)
@click.option(
    "--all", "whole", is_flag=True, help="Show the points that are not on the front, too."
)
@click.option("--csv", type=FILE, default=None, help="Write all points as CSV, too.")
@click.option("--json", "json_file", type=FILE, default=None, help="Write the result as JSON, too.")
@click.option("--html", type=FILE, default=None, help="Write the result as a page with plots, too.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with an exploration that was interrupted; needs --json, beside which its journal "
    "lies.",
)
@force_option
@compile_options
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=None,
    help="Points that are compiled at once (as many as there are cores).",
)
@format_option()
@click.pass_context
def command(
    ctx: click.Context,
    models: tuple[str, ...],
    sweeps: tuple[str, ...],
    front: str | None,
    whole: bool,
    csv: Path | None,
    json_file: Path | None,
    html: Path | None,
    resume: bool,
    force: bool,
    target: str,
    options: CompileOptions,
    jobs: int | None,
    output_format: str,
) -> None:
    """Compile MODEL, an ONNX file or zoo:NAME, for many variants of a target.

    Prints the Pareto front of throughput, latency and resources, each point with its proven bound.
    Nothing is emitted or verified. A variant that is no target, or that the model does not fit, is
    named, and the rest goes on.
    """
    from mcm_compiler.cli.output_files import refuse_existing, refuse_same_file
    from mcm_compiler.components.target_loading import load_target
    from mcm_compiler.exploration.explore import Request, explore
    from mcm_compiler.exploration.sweeps import parse_sweep

    if resume and json_file is None:
        raise click.UsageError("--resume needs --json")
    measures = _measures(front)
    refuse_same_file({"--csv": csv, "--json": json_file, "--html": html})
    for file in (csv, json_file, html):
        if file is not None:
            refuse_existing(file, force)
    request = Request(
        models, load_target(target), tuple(map(parse_sweep, sweeps)), options, measures
    )
    journal = None if json_file is None else journal_path(json_file)
    if journal is not None and force and not resume:
        refuse_existing(journal, force=True)
        journal.unlink(missing_ok=True)
    with progress_line() as progress:
        found, kept = explore(
            request, at_once=jobs, journal=journal, resume=resume, progress=progress
        )
    _write(found, csv, json_file, html)
    if kept is not None:
        kept.end()
    if output_format == "json":
        show_json(found)
    else:
        _show(found, whole)
    for file in (csv, json_file, html):
        if file is not None:
            click.echo(f"wrote {printable(str(file))}", err=True)
    if not all(any(not point["faults"] for point in model["points"]) for model in found["models"]):
        ctx.exit(1)


def _measures(front: str | None) -> Any:
    if front is None:
        return ()
    wanted = tuple(part.strip() for part in front.split(","))
    for name in wanted:
        if name not in MEASURES:
            raise click.BadParameter(
                f"'{name}' is not one of {', '.join(MEASURES)}", param_hint="'--front'"
            )
    return tuple(dict.fromkeys(wanted))


def _write(found: Exploration, csv: Path | None, json_file: Path | None, html: Path | None) -> None:
    from mcm_compiler.cli.output_files import write_with_parents
    from mcm_compiler.exploration.texts import csv_text
    from mcm_compiler.text import json_text

    if csv is not None:
        text = csv_text(cast("Any", found["models"]))
        write_with_parents(csv, text.encode("utf-8", "backslashreplace"))
    if html is not None:
        from mcm_compiler.exploration.texts import exploration_page

        write_with_parents(html, exploration_page(found))
    if json_file is not None:
        write_with_parents(json_file, json_text.encoded(found))


def _show(found: Exploration, whole: bool) -> None:
    from mcm_compiler.diagnostics import Diagnostic
    from mcm_compiler.exploration.texts import fault_lines, front_rows, summary_text

    for number, model in enumerate(found["models"]):
        if number:
            click.echo()
        name = printable(model["name"])
        if model["faults"]:
            show_diagnostics(
                [
                    Diagnostic(fault["code"], fault["message"], name, fault["hint"])
                    for fault in model["faults"]
                ]
            )
            continue
        click.echo(f"{name} on variants of {printable(found['target']['name'])}")
        click.echo(summary_text(cast("Any", model)))
        click.echo()
        show_table(front_rows(cast("Any", model), whole=whole))
        for line in fault_lines(cast("Any", model)):
            click.echo(printable(line), err=True)
