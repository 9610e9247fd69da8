"""`mcmc explore`: models on many variants of a target, and the Pareto front."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from mcm_compiler.cli.compile_options import compile_options
from mcm_compiler.cli.show import progress_line, show_diagnostics, show_json, show_table, wrote
from mcm_compiler.cli.verb import FORCE, FORMAT, MODELS, TARGET, fields_of, verb
from mcm_compiler.contracts.requests import ExploreOptions
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.exploration.journal import Exploration, journal_path
from mcm_compiler.options import CompileOptions
from mcm_compiler.text import json_text
from mcm_compiler.text.option_fields import asked
from mcm_compiler.text.units import printable


@verb(
    (
        "explore zoo:resnet50 --sweep chip.sram_mib=16,32,64",
        "explore a.onnx b.onnx --sweep package.num_chips=4..36:8",
        "explore model.onnx --sweep chip.sram_mib=16,32 --json out.json --resume",
    )
)
def command(
    models: tuple[str, ...] = MODELS,
    asked_for: dict[str, Any] = fields_of(ExploreOptions),
    whole: bool = asked(
        "flag", "", "Also show points that are not on the front.", default=False, flag="--all"
    ),
    csv: Path | None = asked("new file", "", "Also write all points as CSV."),
    json_file: Path | None = asked("new file", "", "Also write the result as JSON.", flag="--json"),
    html: Path | None = asked("new file", "", "Also write the result as a page with plots."),
    force: bool = FORCE,
    target: str = TARGET,
    options: CompileOptions = compile_options(),
    output_format: str = FORMAT,
) -> int:
    """Compile MODEL, an ONNX file or zoo:NAME, for many variants of a target.

    Prints the Pareto front of throughput, latency and resources, each point with its proven bound.
    Nothing is emitted or verified. Invalid variants, and those the model does not fit, are listed
    with the reason and skipped.
    """
    from mcm_compiler.exploration.explore import explore

    exploring = ExploreOptions(**asked_for)
    if exploring.resume and json_file is None:
        raise click.UsageError("--resume needs --json")
    journal = None if json_file is None else journal_path(json_file)
    with progress_line() as progress:
        explored = explore(
            models, target, exploring, options, journal=journal, force=force, progress=progress
        )
    found = explored.data
    _write(found, csv, json_file, html)
    if explored.journal is not None:
        explored.journal.end()
    if output_format == "json":
        show_json(found)
    else:
        _show(found, whole)
    wrote(csv, json_file, html)
    return 0 if explored.complete else 1


def _write(found: Exploration, csv: Path | None, json_file: Path | None, html: Path | None) -> None:
    from mcm_compiler.cli.output_files import write_with_parents
    from mcm_compiler.exploration.texts import csv_text

    if csv is not None:
        text = csv_text(cast("Any", found["models"]))
        write_with_parents(csv, text.encode("utf-8", "backslashreplace"))
    if html is not None:
        from mcm_compiler.exploration.texts import exploration_page

        write_with_parents(html, exploration_page(found))
    if json_file is not None:
        write_with_parents(json_file, json_text.encoded(found))


def _show(found: Exploration, whole: bool) -> None:
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
