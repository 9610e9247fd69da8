"""The verdict on a cell: what it found, what was asked of it, and what was expected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from mcm_compiler.ci.comparison import Comparison
from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.project.cell_record import CellFigures, CellRecord, StoredDiagnostic
from mcm_compiler.project.cells import Cell
from mcm_compiler.project.proving import PROVEN_CODE
from mcm_compiler.results.strictness import UNPROVEN_EXIT, only_unproven
from mcm_compiler.text.units import percent_text, rate_text, seconds_text

_OF_SIZES = ("MCM-U004", "MCM-U005", "MCM-I030", "MCM-I031")
"""Codes of sizes and options that are missing, unknown, or contradict the model."""

_OF_OPTIONS = ("option ", "--")
"""How the place of an option of the compile begins."""

_LIMIT = re.compile(r"(?:--max-latency|\bmax_latency(?:_s)?)\b")
"""The option of the compile that a project calls latency_limit: its max_latency is a threshold."""


@dataclass(frozen=True)
class CellOutcome:
    """What became of a cell of a build.

    Attributes:
        cell: the cell.
        record: of compile and check.
        comparison: with the baseline, or None.
        diagnostics: all of them.
        cached: whether its result was there already.
    """

    cell: Cell
    record: CellRecord
    comparison: Comparison | None
    diagnostics: tuple[Diagnostic, ...]
    cached: bool

    @property
    def failed(self) -> bool:
        """Whether there is an error among the diagnostics."""
        return bool(self.error_codes)

    @property
    def error_codes(self) -> list[str]:
        """Codes of all errors."""
        return [d.code for d in self.diagnostics if d.severity is Severity.ERROR]

    @property
    def proven_again(self) -> bool:
        """Whether its result comes from a cache that this installation had not signed."""
        return any(d.code == PROVEN_CODE for d in self.diagnostics)

    @property
    def expectedly_failed(self) -> bool:
        """Whether it failed, and that was known."""
        return self.cell.expected is not None and not self.failed


def judged(
    cell: Cell,
    record: CellRecord,
    comparison: Comparison | None,
    told: Sequence[Diagnostic],
    *,
    cached: bool,
    strict: bool,
) -> CellOutcome:
    """The outcome of a cell.

    Args:
        cell: the cell.
        record: of compile and check.
        comparison: with the baseline, or None.
        told: what was said of the baseline and of the cache.
        cached: whether the record was there already.
        strict: whether what is not proven is an error.
    """
    record = _placed(cell, record)
    found = record.diagnostics
    if cell.expected is not None:
        found = _as_expected(cell, record)
    elif record.figures is not None:
        found = (*found, *missed(cell, record.figures), *(record.unproven if strict else ()))
    return CellOutcome(cell, record, comparison, (*found, *told), cached)


def _placed(cell: Cell, record: CellRecord) -> CellRecord:
    """The record with the place in the project file, and the name there, of what that decides."""
    return structs.replace(record, found=tuple(_of_the_cell(cell, told) for told in record.found))


def _of_the_cell(cell: Cell, told: StoredDiagnostic) -> StoredDiagnostic:
    at = told.at or ""
    if told.code not in _OF_SIZES and not at.startswith(_OF_OPTIONS):
        return told
    named = _LIMIT.sub("latency_limit", at)
    return structs.replace(
        told,
        message=_LIMIT.sub("latency_limit", told.message),
        at=f"{named}, {cell.place}" if named else cell.place,
        hint=_LIMIT.sub("latency_limit", told.hint) if told.hint else told.hint,
    )


def exit_code(outcomes: Sequence[CellOutcome]) -> int:
    """0 if no cell failed, 3 if all that is wrong is not being proven, else 1."""
    codes = [code for outcome in outcomes for code in outcome.error_codes]
    if not codes:
        return 0
    return UNPROVEN_EXIT if only_unproven(codes) else 1


_FIGURES = {
    "min_throughput": "throughput",
    "max_latency": "latency",
    "max_gap": "gap of the simulated period to the lower bound",
}
"""What a threshold is about, in words."""


def missed(cell: Cell, figures: CellFigures) -> list[Diagnostic]:
    """An error for each threshold that the figures do not reach, or cannot be held against."""
    asked = cell.thresholds
    faults: list[Diagnostic] = []
    for code, name, limit, found, text, least in (
        (
            "MCM-B015",
            "min_throughput",
            asked.min_throughput_per_s,
            figures.throughput_per_s,
            rate_text,
            True,
        ),
        ("MCM-B016", "max_latency", asked.max_latency_s, figures.latency_s, seconds_text, False),
        ("MCM-B017", "max_gap", asked.max_gap, figures.gap, percent_text, False),
    ):
        if limit is None:
            continue
        words = _FIGURES[name]
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
    """What is told where a failure is expected."""
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
