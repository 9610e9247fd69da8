"""`mcmc build` as its user sees it: a line per cell, a summary, and the files for CI services."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mcm_compiler.artifact.layout import page_path
from mcm_compiler.ci.annotations import command_of, path_in_repository, wanted
from mcm_compiler.ci.batch import exit_code
from mcm_compiler.ci.junit import Finding, compile_cases, junit_xml, place_in_file, sarif_log
from mcm_compiler.cli import many_models
from mcm_compiler.cli.output_files import diagnosed_writes, refuse_inside_output, write_with_parents
from mcm_compiler.cli.show import progress_line, show_diagnostics, show_json, wrote
from mcm_compiler.contracts import zoo
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.staging import appended_file, refuse_irregular
from mcm_compiler.project.build import BuildOptions
from mcm_compiler.project.built import Plan
from mcm_compiler.project.cell_record import to_data
from mcm_compiler.project.places import INDEX
from mcm_compiler.project.records import Cell, ProjectFile
from mcm_compiler.project.summary import counts_text, summary_markdown
from mcm_compiler.project.verdicts import CellOutcome
from mcm_compiler.report.versions import versions
from mcm_compiler.text import json_text
from mcm_compiler.text.units import printable

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Environment variable with the file that a step of GitHub Actions appends its summary to."""


@dataclass(frozen=True)
class BuildReports:
    """Where a build reports to, besides the terminal. Paths are absolute.

    Attributes:
        project: the project file as it was given.
        files: to write, by option: JUnit, SARIF, and a summary in Markdown.
        output_format: `text` or `json`, on standard output.
        indexed: cells of the index, which is written where there are any.
    """

    project: Path
    files: Mapping[str, Path]
    output_format: str
    indexed: tuple[Cell, ...] = ()

    def refuse_taken(self, output: Path, cells: Sequence[Cell]) -> None:
        """Stops before anything is built.

        Args:
            output: the folder of the output folders.
            cells: that are built.

        Raises:
            CompileError: MCM-U050 if a file would replace something that is no file, MCM-U054 if it
                would be in an output folder, MCM-U021 if a page would replace a file that is none.
            click.UsageError: if a file would take the place of a page.
        """
        pages = [page_path(output / cell.folder) for cell in self.indexed]
        if self.indexed:
            pages.append(output / INDEX)
            # Beside an output folder a page is put right, like the folder.
            folders = [output / cell.folder for cell in cells]
            new = [folder for folder in folders if not os.path.lexists(folder)]
            _refuse_foreign([*map(page_path, new), output / INDEX])
        taken = {os.path.realpath(page) for page in pages}
        for option, path in self.files.items():
            refuse_irregular(path)
            if os.path.realpath(path) in taken:
                raise click.UsageError(f"--html and {option} name one file")
            refuse_inside_output(path)
            for cell in cells:
                refuse_inside_output(path, output / cell.folder)

    def write_index(self, project: ProjectFile, outcomes: Sequence[CellOutcome]) -> None:
        """Writes the index of the pages.

        Raises:
            CompileError: MCM-A002 or MCM-U050 if it cannot be written.
        """
        if not self.indexed:
            return
        from mcm_compiler.project.index_page import NAME, index_bytes

        output = Path(project.output)
        page = index_bytes(project.root.name, output, self.indexed, outcomes)
        write_with_parents(output / NAME, page)
        wrote(output / NAME)

    def write(self, outcomes: Sequence[CellOutcome], of_project: Sequence[Diagnostic] = ()) -> None:
        """Writes the files, and what GitHub reads.

        Args:
            outcomes: of all cells.
            of_project: messages about the project file itself.

        Raises:
            CompileError: MCM-A002 or MCM-U050 if one cannot be written.
        """
        found = [self._of_project(told) for told in of_project]
        found += [f for outcome in outcomes for f in self._findings(outcome)]
        if wanted(os.environ):
            for finding in found:
                line = command_of(finding.diagnostic, finding.name, finding.file, finding.line)
                if line is not None:
                    click.echo(line, err=True)
        if (junit := self.files.get("--junit")) is not None:
            suites: dict[str, list[CellOutcome]] = {}
            for outcome in outcomes:
                suites.setdefault(outcome.cell.target, []).append(outcome)
            cases = ((name, name, compile_cases(own)) for name, own in suites.items())
            write_with_parents(junit, junit_xml(cases))
        if (sarif := self.files.get("--sarif")) is not None:
            version = versions()["mcm-compiler"] or ""
            compiled = [(o.cell.title, o.record.figures) for o in outcomes]
            verdicts = {name: figures.verdict for name, figures in compiled if figures is not None}
            log = sarif_log(found, version, verdicts)
            write_with_parents(sarif, json_text.encoded(log))
        summary, step = self.files.get("--summary"), os.environ.get(SUMMARY_VARIABLE)
        if summary is None and not step:
            return
        text = summary_markdown(outcomes, of_project).encode("utf-8", "backslashreplace")
        if summary is not None:
            write_with_parents(summary, text)
        if step:
            with diagnosed_writes(Path(step)), appended_file(Path(step)) as stream:
                stream.write(text)

    def _of_project(self, told: Diagnostic) -> Finding:
        project = path_in_repository(self.project.name, os.environ)
        file, line = place_in_file(told.at, {str(self.project): project}) or (project, 1)
        return Finding(told, file, line, project)

    def _findings(self, outcome: CellOutcome) -> list[Finding]:
        named = str(self.project)
        project = path_in_repository(self.project.name, os.environ)
        model = outcome.cell.model
        found: list[Finding] = []
        for diagnostic in outcome.diagnostics:
            in_project = place_in_file(diagnostic.at, {named: project})
            if in_project is None and model.startswith(zoo.PREFIX):
                in_project = place_in_file(outcome.cell.place, {named: project}) or (project, 1)
            # A model has no lines; services that show results at lines take the first.
            file, line = in_project or (path_in_repository(model, os.environ), 1)
            found.append(Finding(diagnostic, file, line, outcome.cell.title))
        return found


def _refuse_foreign(pages: Sequence[Path]) -> None:
    """Stops before a page replaces a file that somebody else wrote.

    Raises:
        CompileError: MCM-U021 for each that would.
    """
    from mcm_compiler.page.contents import is_page

    faults: list[Diagnostic] = []
    for page in pages:
        # What is no file, or cannot be read, is told by the cell that writes it.
        with contextlib.suppress(OSError):
            if page.is_file() and not is_page(page):
                message = "the output file exists, and is no page of this compiler"
                hint = "move it elsewhere, choose another 'output', or build with --no-html"
                faults.append(Diagnostic("MCM-U021", message, page.as_posix(), hint))
    CompileError.raise_any(faults)


def run_build(plan: Plan, options: BuildOptions, reports: BuildReports) -> int:
    """Builds cells, reports each, and gives the exit code.

    The process has to work in the project's folder.

    Args:
        plan: the cells.
        options: how.
        reports: where messages go.

    Raises:
        CompileError: as `build_cells`, and for files that cannot be written.
        click.UsageError: as `BuildReports.refuse_taken`.
    """
    start = time.perf_counter()
    project, cells = plan.project, plan.cells
    reports.refuse_taken(Path(project.output), cells)
    longest = max((len(printable(cell.title)) for cell in cells), default=0)
    width = min(longest, many_models.NAME_WIDTH)
    as_text = reports.output_format != "json"
    done = itertools.count(1)
    with progress_line() as progress:

        def shown(outcome: CellOutcome) -> None:
            if progress is not None:
                progress(f"{next(done)} of {len(cells)} cells")
            reported = () if outcome.cached and not outcome.failed else outcome.diagnostics
            lines = [_line(outcome, width)] if as_text else []
            many_models.show_one(outcome.cell.title, lines, reported)

        built = plan.run(options, shown)
    outcomes, of_project = built.outcomes, built.notes
    show_diagnostics(of_project)
    if as_text:
        click.echo(counts_text(outcomes))
    else:
        cells_data = [outcome_data(project, outcome, reports.indexed) for outcome in outcomes]
        diagnostics = [found.to_dict() for found in of_project]
        show_json({"cells": cells_data, "diagnostics": diagnostics})
    seconds = time.perf_counter() - start
    click.echo(f"wrote to {printable(project.output)} in {seconds:.1f} s", err=True)
    reports.write_index(project, outcomes)
    reports.write(outcomes, of_project)
    return exit_code(outcomes)


def show_folders(project: ProjectFile, output_format: str) -> None:
    """Prints the folders that a build writes, from the working folder: `key=path` lines or JSON."""
    keys = ("output", "baseline", "cache")
    found = {key: Path(os.path.relpath(project.root / getattr(project, key))) for key in keys}
    if output_format == "json":
        show_json({key: path.as_posix() for key, path in found.items()})
        return
    for key, path in found.items():
        click.echo(f"{key}={printable(path.as_posix())}")


def outcome_data(
    project: ProjectFile, outcome: CellOutcome, indexed: Sequence[Cell] = ()
) -> dict[str, Any]:
    """The JSON form; with a page where the build makes some."""
    cell, record = outcome.cell, to_data(outcome.record)
    compiled = outcome.record.figures is not None
    page = page_path(Path(project.output) / cell.folder)
    return {
        "cell": cell.title,
        "model": cell.model,
        "target": cell.target,
        "folder": (Path(project.output) / cell.folder).as_posix() if compiled else None,
        "page": page.as_posix() if compiled and indexed and page.is_file() else None,
        "ok": not outcome.failed,
        "cached": outcome.cached,
        "expected_failure": cell.expected.code if cell.expected is not None else None,
        "figures": record["figures"],
        "check": record["steps"],
        "comparison": outcome.comparison.to_dict() if outcome.comparison is not None else None,
        "diagnostics": [d.to_dict() for d in outcome.diagnostics],
    }


def _line(outcome: CellOutcome, width: int) -> str:
    line = many_models.outcome_line(outcome, width)
    if outcome.expectedly_failed and outcome.cell.expected is not None:
        line += f"{outcome.cell.expected.code} as expected"
    again = ", proven again" if outcome.proven_again else ""
    return f"{line}  cached{again}" if outcome.cached else line
