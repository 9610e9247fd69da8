"""The index of a build as a page: a row per cell, with a link to its page, and what failed and why.

The page is in the folder of the output folders, next to the pages of the cells. Its links are
relative, so that the whole folder can be moved, or kept as an artifact of CI.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import page_path
from mcm_compiler.checking.entry.gate import read_report
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.page.contents import (
    NOT_MEASURED,
    Answer,
    Page,
    Section,
    Table,
    linked,
    page_bytes,
)
from mcm_compiler.project import summary
from mcm_compiler.project.cell_record import CellFigures
from mcm_compiler.project.places import INDEX
from mcm_compiler.project.records import Cell
from mcm_compiler.project.verdicts import CellOutcome
from mcm_compiler.report.verdict.words import optimality_line
from mcm_compiler.report.versions import versions
from mcm_compiler.text.headline import line_text
from mcm_compiler.text.json_text import UnreadableError, record_of
from mcm_compiler.text.units import UNKNOWN, count_text

NAME = INDEX
"""The file, in the folder of the output folders."""

NAMED = 3
"""Cells that an answer names."""

MAX_ROWS = 1000
"""Warnings that are listed."""

_WORDS = frozenset({0, 1})
_HEADS = ("", "code", "what", "where", "what to do")


def index_bytes(
    name: str, output: Path, cells: Sequence[Cell], outcomes: Sequence[CellOutcome]
) -> bytes:
    """The page of a build whose cells have their pages.

    Args:
        name: of the project.
        output: the folder of the output folders.
        cells: all that are shown, built or not.
        outcomes: of the built ones.
    """
    failed = [outcome for outcome in outcomes if outcome.failed]
    known = [outcome for outcome in outcomes if outcome.expectedly_failed]
    sections = (
        _cells(output, cells, outcomes),
        _diagnosed_section("failed", "What failed", failed),
        _diagnosed_section("expected", "What failed as expected", known),
        _warnings(outcomes),
    )
    kept = tuple(section for section in sections if section is not None)
    made_with = ", ".join(f"{tool} {version}" for tool, version in versions().items())
    return page_bytes(
        Page(
            f"Project build of {name}",
            (count_text(len(cells), "cell"), str(output)),
            linked(_answers(outcomes, failed), kept),
            kept,
            (NOT_MEASURED, f"Made with {made_with}."),
        )
    )


def _answers(outcomes: Sequence[CellOutcome], failed: Sequence[CellOutcome]) -> tuple[Answer, ...]:
    counts = summary.verdicts_text(outcomes)
    answers = [
        Answer("Build passed", "no", (counts, *_names(failed)), "bad", "failed")
        if failed
        else Answer("Build passed", "yes", (counts,), "good", "cells")
    ]
    compared = [
        (outcome.comparison.change, outcome)
        for outcome in outcomes
        if outcome.comparison is not None
    ]
    if compared:
        change, worst = min(compared, key=lambda one: one[0])
        slower = sum(one < 0 for one, _ in compared)
        answers.append(
            Answer(
                "Is anything slower than the baseline?",
                f"{slower} of {count_text(len(compared), 'cell')}" if slower else "no",
                (f"{worst.cell.title}: {100.0 * change:+.1f} %",) if slower else (),
                "warn" if slower else "good",
                "cells",
            )
        )
    claims = [
        (outcome.record.figures.verdict["optimality"], outcome)
        for outcome in outcomes
        if outcome.record.figures is not None
    ]
    gaps = [(claim["gap"], claim, outcome) for claim, outcome in claims if claim["gap"] is not None]
    if gaps:
        _, claim, furthest = max(gaps, key=lambda one: one[0])
        answers.append(
            Answer(
                "Largest gap to a bound",
                furthest.cell.title,
                (line_text(optimality_line(claim)),),
                "plain",
                "cells",
            )
        )
    return tuple(answers)


def _names(outcomes: Sequence[CellOutcome]) -> tuple[str, ...]:
    """The first of some cells."""
    further = len(outcomes) - NAMED
    rest = (f"and {further} more",) if further > 0 else ()
    return (*(outcome.cell.title for outcome in outcomes[:NAMED]), *rest)


def _cells(output: Path, cells: Sequence[Cell], outcomes: Sequence[CellOutcome]) -> Section:
    built = {outcome.cell.folder: outcome for outcome in outcomes}
    rows: list[tuple[str, ...]] = []
    links: list[str] = []
    for cell in cells:
        outcome = built.get(cell.folder)
        if outcome is None:
            figures = _stored_figures(output / cell.folder)
            verdict, comparison, section = "not built this time", None, ""
        else:
            figures, comparison = outcome.record.figures, outcome.comparison
            verdict = summary.verdict_text(outcome)
            section = "#failed" if outcome.failed else ""
            if outcome.expectedly_failed:
                section = "#expected"
        rows.append((cell.title, verdict, *summary.figure_texts(figures, comparison)))
        page = page_path(output / cell.folder)
        links.append(_link(cell.folder) if figures is not None and page.is_file() else section)
    lead = (
        "A row leads to the page of its cell, with bottleneck and levers. Change is that of the "
        "throughput against the baseline.",
    )
    numbers = frozenset(range(2, 2 + len(summary.FIGURES)))
    table = Table(("cell", "result", *summary.FIGURES), tuple(rows), numbers, "", tuple(links))
    return Section("cells", "All cells", lead, None, (table,))


def _link(folder: PurePosixPath) -> str:
    """The address of the page of a cell, from the index; never one of another scheme or host."""
    return quote(os.fsencode(page_path(Path(folder)).as_posix()), safe="/")


def _stored_figures(folder: Path) -> CellFigures | None:
    """The figures of a cell that was not built; None where there is no report of it."""
    try:
        report = read_report(folder / layout.REPORT)
        figures = {name: report.get(name) for name in CellFigures.__struct_fields__}
        return record_of(figures, CellFigures)
    except (CompileError, UnreadableError):
        return None


def _diagnosed_section(key: str, title: str, outcomes: Sequence[CellOutcome]) -> Section | None:
    """Statements about some cells, a table for each."""
    if not outcomes:
        return None
    tables = [
        Table(
            _HEADS, tuple(map(_row, outcome.diagnostics)), caption=outcome.cell.title, words=_WORDS
        )
        for outcome in outcomes[: summary.MAX_SHOWN]
    ]
    further = len(outcomes) - summary.MAX_SHOWN
    lead = (f"The diagnostics of {further} more are in the log.",) if further > 0 else ()
    return Section(key, title, lead, None, tuple(tables))


def _warnings(outcomes: Sequence[CellOutcome]) -> Section | None:
    rows = [
        (outcome.cell.title, *_row(found)[1:])
        for outcome in outcomes
        if not outcome.failed
        for found in outcome.diagnostics
        if found.severity is Severity.WARNING
    ]
    if not rows:
        return None
    lead = (f"The first {MAX_ROWS:,} of {len(rows):,}.",) if len(rows) > MAX_ROWS else ()
    table = Table(("cell", *_HEADS[1:]), tuple(rows[:MAX_ROWS]), words=frozenset({1}))
    return Section("warnings", "Warnings", lead, None, (table,))


def _row(found: Diagnostic) -> tuple[str, ...]:
    at, hint = found.at or UNKNOWN, found.hint or UNKNOWN
    return (found.severity.value, found.code, found.message, at, hint)
