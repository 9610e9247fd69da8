"""Verdicts: what cells found, what was asked of them, what was expected, and unused sizes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from mcm_compiler.ci.batch import CompileOutcome
from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.project.cell_record import (
    CellFigures,
    CellRecord,
    CellResult,
    StoredDiagnostic,
    to_data,
)
from mcm_compiler.project.cells import tables_of
from mcm_compiler.project.proving import PROVEN_CODE
from mcm_compiler.project.records import Cell, ProjectFile
from mcm_compiler.text.units import percent_text, rate_text, seconds_text

_OF_SIZES = ("MCM-U004", "MCM-U005", "MCM-I030", "MCM-I031")
"""Codes of sizes and options that are missing, unknown, or contradict the model."""

_OF_OPTIONS = ("option ", "--")
"""How the place of an option of the compile begins."""

_LIMIT = re.compile(r"(?:--max-latency|\bmax_latency(?:_s)?)\b")
"""The option of the compile that a project calls latency_limit: its max_latency is a threshold."""


@dataclass(frozen=True)
class CellOutcome(CompileOutcome):
    """Outcome of a cell of a build.

    Attributes:
        cell: the cell.
        record: of compile and check.
        cached: whether its result was there already.
    """

    cell: Cell
    record: CellRecord
    cached: bool

    @property
    def proven_again(self) -> bool:
        """True if its result comes from a cache that this installation had not signed."""
        return any(d.code == PROVEN_CODE for d in self.diagnostics)

    @property
    def expectedly_failed(self) -> bool:
        """True if it failed, and that was known."""
        return self.cell.expected is not None and not self.failed


def judged(cell: Cell, result: CellResult, *, strict: bool) -> CellOutcome:
    """The outcome of a cell.

    Args:
        cell: the cell.
        result: of the work on it.
        strict: whether what is not proven is an error.
    """
    record = _placed(cell, result.record)
    found = record.diagnostics
    if cell.expected is not None:
        found = _as_expected(cell, record)
    elif record.figures is not None:
        found = (*found, *missed(cell, record.figures), *(record.unproven if strict else ()))
    figures: dict[str, Any] | None = to_data(record)["figures"]
    return CellOutcome(
        cell.title, Path(cell.folder), figures, None, result.comparison, (*found, *result.notes),
        0.0 if result.cached else record.seconds, cell, record, result.cached,
    )  # fmt: skip


def _placed(cell: Cell, record: CellRecord) -> CellRecord:
    """The record with the place in the project file, and the name there, of what that decides."""
    return structs.replace(
        record, found=tuple(_of_the_cell(cell, diagnostic) for diagnostic in record.found)
    )


def _of_the_cell(cell: Cell, diagnostic: StoredDiagnostic) -> StoredDiagnostic:
    at = diagnostic.at or ""
    if diagnostic.code not in _OF_SIZES and not at.startswith(_OF_OPTIONS):
        return diagnostic
    named = _LIMIT.sub("latency_limit", at)
    return structs.replace(
        diagnostic,
        message=_LIMIT.sub("latency_limit", diagnostic.message),
        at=f"{named}, {cell.place}" if named else cell.place,
        hint=_LIMIT.sub("latency_limit", diagnostic.hint) if diagnostic.hint else diagnostic.hint,
    )


def missed(cell: Cell, figures: CellFigures) -> list[Diagnostic]:
    """An error for each threshold that the figures do not reach, or that has no figure."""
    asked = cell.thresholds
    above_bound = "gap of the simulated period to the lower bound"
    rate, latency = figures.throughput_per_s, figures.latency_s
    faults: list[Diagnostic] = []
    for code, name, words, limit, found, text in (
        ("MCM-B015", "min_throughput", "throughput", asked.min_throughput_per_s, rate, rate_text),
        ("MCM-B016", "max_latency", "latency", asked.max_latency_s, latency, seconds_text),
        ("MCM-B017", "max_gap", above_bound, asked.max_gap, figures.gap, percent_text),
    ):
        least = name.startswith("min_")
        if limit is None:
            continue
        wanted = f"{'at least' if least else 'at most'} {text(limit)}"
        if found is None:
            message = f"the {words} is unknown, and {wanted} is asked for"
            hint = "add 'simulate' to the passes"
        elif found < limit if least else found > limit:
            message = f"the {words} is {text(found)}, and {wanted} is asked for"
            hint = f"change the model or the target, search at a higher level, or change {name}"
        else:
            continue
        faults.append(Diagnostic(code, message, f"{cell.title}, {cell.place}", hint))
    return faults


def _as_expected(cell: Cell, record: CellRecord) -> tuple[Diagnostic, ...]:
    """Diagnostics where a failure is expected."""
    expected = cell.expected
    if expected is None:
        return record.diagnostics
    at = f"{cell.title}, {expected.place}"
    errors = [d for d in record.diagnostics if d.severity is Severity.ERROR]
    if not errors:
        message = (
            f"the model compiles, and was expected to fail with {expected.code}: "
            f"{quote(expected.reason)}"
        )
        return (*record.diagnostics, Diagnostic("MCM-B011", message, at))
    if expected.code not in [d.code for d in errors]:
        message = (
            f"the model fails with {errors[0].code}, and was expected to fail with "
            f"{expected.code}: {quote(expected.reason)}"
        )
        return (*record.diagnostics, Diagnostic("MCM-B012", message, at))
    message = f"failed with {expected.code}, as expected: {quote(expected.reason)}"
    note = Diagnostic("MCM-B013", message, at)
    return (note, *(replace(d, severity=Severity.NOTE) for d in record.diagnostics))


SHOWN = 20
"""Names of dimensions that a message lists."""


def unused_sizes(project: ProjectFile, outcomes: Sequence[CellOutcome]) -> tuple[Diagnostic, ...]:
    """MCM-B020 for each size that was given to many models, none of which has its dimension.

    A model leaves alone the sizes of defaults and patterns that it lacks, so no compile notices.

    Args:
        project: that was built.
        outcomes: of all its cells; of some of them the others may have the dimension.
    """
    asked: dict[str, set[str] | None] = {}
    for outcome in outcomes:
        known = outcome.record.dimensions
        for name in outcome.cell.lenient:
            so_far = asked.setdefault(name, set())
            # What cannot be read may have it.
            asked[name] = None if known is None or so_far is None else so_far | set(known)
    found: dict[str, Diagnostic] = {}
    given = [
        (name, project.description.place((*path, "dims", name)))
        for path, settings in tables_of(project)
        for name in settings.dims
    ]
    for name, place in (*given, *((name, "option --dim") for name in project.over.dims)):
        known = asked.get(name)
        if known is not None and name not in known and name not in found:
            found[name] = _unused(name, place, known)
    return tuple(found.values())


def _unused(name: str, place: str, known: set[str]) -> Diagnostic:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    listed = ", ".join(map(quote, sorted(known)[:SHOWN])) or "none"
    return Diagnostic(
        "MCM-B020",
        f"no model has the dimension {quote(name)}; they have {listed}",
        at=place,
        hint=f"did you mean {quote(near[0])}?" if near else "leave the size out",
    )
