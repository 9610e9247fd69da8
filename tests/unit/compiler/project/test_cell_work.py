"""What of a cell is kept, and what another try may make otherwise."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.project.cell_record import CellFigures, CellRecord, StoredDiagnostic
from mcm_compiler.project.cell_work import CellJob, is_lasting, lost
from mcm_compiler.project.records import Cell, Thresholds
from tests.generators.example_result import example_verdict

FIGURES = CellFigures(10.0, 0.1, 0.2, 0.05, 0.5, 3, example_verdict())
CELL = Cell(
    "a.onnx",
    PurePosixPath("a/mcm4"),
    "mcm4",
    {},
    frozenset(),
    None,
    {},
    Thresholds(),
    None,
    "mcmc.toml:1",
)


def record(figures: CellFigures | None, *codes: str, severity=Severity.ERROR) -> CellRecord:
    found = tuple(StoredDiagnostic.of(Diagnostic(code, "x", severity=severity)) for code in codes)
    return CellRecord(figures, (), found, (), 1.0)


@pytest.mark.parametrize(
    ("kept", "lasting"),
    [
        (record(FIGURES), True),
        (record(FIGURES, "MCM-V021", severity=Severity.WARNING), True),
        (record(FIGURES, "MCM-V001"), False),
        (record(None, "MCM-I003"), True),
        (record(None, "MCM-P016", "MCM-T001"), True),
        (record(None, "MCM-A002"), False),
        (record(None, "MCM-U037"), False),
        (record(None, "MCM-I003", "MCM-U099"), False),
        (record(None, "MCM-U053"), False),
        (record(None, "MCM-X004"), False),
    ],
)
def test_what_is_kept(kept: CellRecord, lasting: bool) -> None:
    assert is_lasting(kept) is lasting


def test_a_cell_whose_process_died_has_a_result_that_is_not_kept() -> None:
    job = CellJob(CELL, Path("out"), "a" * 64, Path("cache"), None, 0.03)
    result = lost(job, -9, CrashJournal(("pass 'verify'",)))
    (found,) = result.record.diagnostics
    assert (found.code, found.at) == ("MCM-U037", "pass 'verify'")
    assert "signal 9" in found.message
    assert result.record.figures is None
    assert not is_lasting(result.record)
