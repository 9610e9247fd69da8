"""`mcmc compile` with many models: a line each, a summary, and one exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from mcm_compiler.artifact.layout import page_path
from mcm_compiler.ci import batch
from mcm_compiler.ci.comparison import change_text
from mcm_compiler.ci.model_list import list_models
from mcm_compiler.ci.processes import work_on_all
from mcm_compiler.cli import output_files
from mcm_compiler.cli.guard import Guard
from mcm_compiler.cli.show import progress_line, show_diagnostics, show_json, terminal_width
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.processes.staging import no_empty_folders
from mcm_compiler.report.state_section import throughput_text
from mcm_compiler.report.verdict.words import VERDICT, gap_text
from mcm_compiler.text.styled import wrapped
from mcm_compiler.text.units import count_text, printable, seconds_text

T = TypeVar("T")

Shown = tuple[str, Sequence[str], Sequence[Diagnostic]]
"""Of an outcome: its name, lines and diagnostics."""

NAME_WIDTH = 60
"""Longer names push the figures of their line to the right."""


def compile_many(
    arguments: tuple[str, ...],
    output: Path,
    settings: batch.Settings,
    guard: Guard,
    processes: int,
    plugins: tuple[Path, ...],
    timings: bool,
    output_format: str,
) -> int:
    """Compiles all models into folders below `output`, and gives the exit code.

    Raises:
        CompileError: MCM-U005, MCM-U030, MCM-U034 and MCM-U036 before anything is compiled,
            MCM-A002 for a JUnit file that cannot be written, MCM-U054 for one in an output folder.
        click.UsageError: for one in the place of a page.
    """
    # Reads models; a build that has all in its cache shows its lines without.

    start = time.perf_counter()
    listed = list_models(arguments, output)
    if guard.junit is not None:
        for model in listed:
            output_files.refuse_inside_output(guard.junit, output / model.folder)
    if settings.html:
        for model in listed:
            page = page_path(output / model.folder)
            output_files.refuse_same_file({"--html": page, "--junit": guard.junit})
            output_files.refuse_existing(page, settings.force)
    # A new output folder may replace its own baseline.
    before = [guard.before(model.folder) for model in listed]
    options = batch.options_of_each([model.model for model in listed], settings.options)
    jobs = [
        batch.Job(model.model, output / model.folder, own, earlier)
        for model, own, earlier in zip(listed, options, before, strict=True)
    ]
    width = min(max(len(printable(job.model)) for job in jobs), NAME_WIDTH)
    as_text = output_format != "json"
    parents = [job.folder.parent for job in jobs]
    with no_empty_folders(*parents), progress_line() as progress:
        work = partial(batch.compile_one, settings)
        results = work_on_all(jobs, work, batch.lost, processes, plugins, progress)

        def shown(outcome: batch.CompileOutcome) -> Shown:
            lines = outcome_lines(outcome, width) if as_text else []
            return outcome.model, lines, outcome.diagnostics

        outcomes = each_shown(_timed(results, width) if timings else results, shown)
    if as_text:
        click.echo(summary_line(outcomes))
    else:
        show_json([outcome_data(outcome) for outcome in outcomes])
    seconds = time.perf_counter() - start
    click.echo(f"wrote to {printable(str(output))} in {seconds:.1f} s", err=True)
    guard.report(outcomes, settings)
    return batch.exit_code(outcomes)


def _timed(results: Generator[batch.CompileOutcome], width: int) -> Generator[batch.CompileOutcome]:
    """The outcomes; the seconds of each are printed to stderr after it is shown."""
    with closing(results):
        for outcome in results:
            yield outcome
            click.echo(f"{printable(outcome.model):<{width}}  {outcome.seconds:8.3f} s", err=True)


def each_shown(results: Generator[T], shown: Callable[[T], Shown]) -> list[T]:
    """All outcomes, each shown as it comes: lines on stdout, diagnostics on stderr.

    Args:
        results: outcomes, in their order.
        shown: of an outcome.
    """
    outcomes: list[T] = []
    # An interrupt ends the other processes here, not whenever the generator is collected.
    with closing(results):
        for outcome in results:
            outcomes.append(outcome)
            show_one(*shown(outcome))
    return outcomes


def show_one(name: str, lines: Sequence[str], diagnostics: Sequence[Diagnostic]) -> None:
    """Shows one outcome: lines on stdout, diagnostics on stderr."""
    for line in lines:
        click.echo(line)
    if diagnostics:
        click.echo(f"in {printable(name)}:", err=True)
        show_diagnostics(diagnostics)


def outcome_line(outcome: batch.CompileOutcome, width: int) -> str:
    """`ok      a.onnx   4,797 inferences/s  period 208 us  gap <= 0.3 %  4 chips  -1.2 %`."""
    verdict, name, cells = _cells(outcome)
    widths = (0,) if outcome.report is None else (22, 14, 13, 8, 0)
    aligned = [f"{cell:>{columns}}" for cell, columns in zip(cells, widths, strict=False)]
    return "  ".join([verdict, f"{name:<{width}}", *aligned])


def outcome_lines(outcome: batch.CompileOutcome, width: int) -> list[str]:
    """The same, with the numbers below the name where the terminal is narrower than the line."""
    line = outcome_line(outcome, width)
    columns = terminal_width()
    if columns is None or len(click.unstyle(line)) <= columns:
        return [line]
    verdict, name, cells = _cells(outcome)
    numbers = wrapped(", ".join(" ".join(cell.split()) for cell in cells), columns - 8)
    return [f"{verdict}  {name}", *(f"{'':8}{number}" for number in numbers)]


def _cells(outcome: batch.CompileOutcome) -> tuple[str, str, list[str]]:
    """Verdict, model, and what is reported of it."""
    verdict = click.style("FAILED", fg="red") if outcome.failed else click.style("ok    ", "green")
    name = printable(outcome.model)
    if outcome.report is None:
        return verdict, name, [", ".join(dict.fromkeys(outcome.error_codes))]
    report = outcome.report
    cells = [
        throughput_text(report),
        f"period {seconds_text(report['period_s']):>7}",
        f"gap {gap_text(report[VERDICT]['optimality']):>9}",
        count_text(report["chips_used"], "chip"),
    ]
    if outcome.comparison is not None:
        cells.append(change_text(outcome.comparison))
    return verdict, name, cells


def summary_line(outcomes: list[batch.CompileOutcome]) -> str:
    """`30 models: 28 ok, 2 failed, 1 of them slower than its baseline`."""
    failed = sum(outcome.failed for outcome in outcomes)
    slower = sum(o.comparison is not None and o.comparison.regressed for o in outcomes)
    text = f"{count_text(len(outcomes), 'model')}: {len(outcomes) - failed} ok, {failed} failed"
    return f"{text}, {slower} of them slower than the baseline" if slower else text


def outcome_data(outcome: batch.CompileOutcome) -> dict[str, Any]:
    """The JSON form: nothing that differs between two runs."""
    return {
        "model": outcome.model,
        "folder": outcome.folder.as_posix() if outcome.report is not None else None,
        "ok": not outcome.failed,
        "report": outcome.report,
        "comparison": outcome.comparison.to_dict() if outcome.comparison is not None else None,
        "diagnostics": [d.to_dict() for d in outcome.diagnostics],
    }
