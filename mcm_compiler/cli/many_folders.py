"""`mcmc check` with many folders: a line each, a summary, one exit code, JUnit and annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import click

from mcm_compiler.ci.annotations import wanted, workflow_commands
from mcm_compiler.ci.checks import CheckOutcome, CheckSettings, check_all, exit_code
from mcm_compiler.cli.compile_options import progress_line
from mcm_compiler.cli.failures import show_diagnostics
from mcm_compiler.cli.output_files import refuse_inside_output, write_with_parents
from mcm_compiler.cli.show import show_json
from mcm_compiler.processes.staging import refuse_irregular
from mcm_compiler.text.units import count_text, printable

SUITE = "mcmc check"


def check_many(
    folders: Sequence[str],
    settings: CheckSettings,
    junit: Path | None,
    processes: int,
    plugins: tuple[Path, ...],
    output_format: str,
) -> int:
    """Checks all folders, tells of each, and gives the exit code.

    Raises:
        CompileError: MCM-A002 or MCM-U050 for a JUnit file that cannot be written, MCM-U054 for
            one in an output folder.
    """
    from mcm_compiler.cli.many_models import NAME_WIDTH, prepare_process

    if junit is not None:
        refuse_inside_output(junit)
        refuse_irregular(junit)
    width = min(max(len(printable(folder)) for folder in folders), NAME_WIDTH)
    as_text = output_format != "json"
    outcomes: list[CheckOutcome] = []
    with progress_line() as progress:
        results = check_all(
            folders, settings, processes, partial(prepare_process, plugins), progress
        )
        # An interrupt ends the other processes here, not whenever the generator is collected.
        with closing(results):
            for outcome in results:
                outcomes.append(outcome)
                if as_text:
                    click.echo(outcome_line(outcome, width))
                if outcome.diagnostics:
                    click.echo(f"in {printable(outcome.folder)}:", err=True)
                    show_diagnostics(outcome.diagnostics)
    if as_text:
        failed = sum(outcome.failed for outcome in outcomes)
        total = count_text(len(outcomes), "folder")
        click.echo(f"{total}: {len(outcomes) - failed} ok, {failed} failed")
    else:
        show_json([outcome_data(outcome) for outcome in outcomes])
    report(outcomes, junit)
    return exit_code(outcomes)


def outcome_line(outcome: CheckOutcome, width: int) -> str:
    """`ok      compiled/a  7 steps hold`, or `FAILED  compiled/b  MCM-A010 in files`."""
    verdict = click.style("FAILED", fg="red") if outcome.failed else click.style("ok    ", "green")
    return f"{verdict}  {printable(outcome.folder):<{width}}  {outcome.line}"


def outcome_data(outcome: CheckOutcome) -> dict[str, object]:
    """The JSON form: nothing that differs between two runs."""
    found: dict[str, object] = {"folder": outcome.folder, "ok": not outcome.failed}
    told = [d.to_dict() for d in outcome.diagnostics]
    return found | (outcome.data or {"holds": False, "steps": [], "diagnostics": told})


def report(outcomes: Sequence[CheckOutcome], junit: Path | None) -> None:
    """Prints GitHub's annotations, and writes the JUnit file.

    Raises:
        CompileError: MCM-A002 or MCM-U050 if the file cannot be written.
    """
    if wanted(os.environ):
        for outcome in outcomes:
            for line in workflow_commands(outcome.folder, outcome.diagnostics, os.environ):
                click.echo(line, err=True)
    if junit is not None:
        from mcm_compiler.ci.junit import Case, cases_xml

        cases = [
            Case(o.folder, o.seconds, o.diagnostics, printable(o.line), o.failed) for o in outcomes
        ]
        write_with_parents(junit, cases_xml(SUITE, "check", cases))
