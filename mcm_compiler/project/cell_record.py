"""Outcome of a cell, as kept in the cache: verdicts, figures and diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from mcm_compiler.ci.comparison import Comparison
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.report.records.verdict import Verdict
from mcm_compiler.results.strictness import CheckStep


class CellFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of a compiled cell; None where the pipeline computed none.

    Attributes:
        throughput_per_s: inferences per second.
        period_s: its inverse.
        latency_s: seconds from the input of an inference to its output.
        lower_bound_s: proven bound on the period.
        gap: simulated period over the bound, less 1.
        chips_used: chips with ops.
        verdict: the claims of the report.
    """

    throughput_per_s: float | None
    period_s: float | None
    latency_s: float | None
    lower_bound_s: float | None
    gap: float | None
    chips_used: int | None
    verdict: Verdict

    @staticmethod
    def of_report(report: Mapping[str, Any]) -> CellFigures:
        """The figures of a report."""
        return CellFigures(*(report[name] for name in CellFigures.__struct_fields__))


class StoredDiagnostic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A diagnostic with its severity as text."""

    severity: str
    code: str
    message: str
    at: str | None
    hint: str | None

    def diagnostic(self) -> Diagnostic:
        """The diagnostic."""
        return Diagnostic(self.code, self.message, self.at, self.hint, Severity(self.severity))

    @staticmethod
    def of(found: Diagnostic) -> StoredDiagnostic:
        """The stored form."""
        return StoredDiagnostic(
            found.severity.value, found.code, found.message, found.at, found.hint
        )


class CellRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Findings of a compile and its check.

    Attributes:
        figures: None where the compile failed.
        steps: of the check; empty where the compile failed.
        found: diagnostics of both.
        open: what is not proven; errors with `--strict`.
        seconds: that both took.
        dimensions: names of the model's symbolic dimensions, where sizes were given to many models;
            None where none were, or the model could not be read.
    """

    figures: CellFigures | None
    steps: tuple[CheckStep, ...]
    found: tuple[StoredDiagnostic, ...]
    open: tuple[StoredDiagnostic, ...]
    seconds: float
    dimensions: tuple[str, ...] | None = None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """`found` as diagnostics."""
        return tuple(stored.diagnostic() for stored in self.found)

    @property
    def unproven(self) -> tuple[Diagnostic, ...]:
        """`open` as diagnostics."""
        return tuple(stored.diagnostic() for stored in self.open)


@dataclass(frozen=True)
class CellResult:
    """A record, and how it compares with the baseline.

    Attributes:
        record: of compile and check.
        comparison: with the baseline, or None.
        notes: diagnostics of the comparison and of the cache.
        cached: whether the record was there already.
    """

    record: CellRecord
    comparison: Comparison | None = None
    notes: tuple[Diagnostic, ...] = ()
    cached: bool = False

    def with_notes(self, notes: Iterable[Diagnostic]) -> CellResult:
        """The result with further messages."""
        return replace(self, notes=(*self.notes, *notes))


class StoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of an output folder in the cache: its hash and its size."""

    sha256: str
    bytes: int


class EntryRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the cache.

    Attributes:
        key: of the cell.
        files: of its output folder, by name; empty where the compile failed.
        record: what became of it.
    """

    key: str
    files: dict[str, StoredFile]
    record: CellRecord


def to_data(record: EntryRecord | CellRecord) -> dict[str, Any]:
    """The JSON form."""
    return cast("dict[str, Any]", msgspec.to_builtins(record))
