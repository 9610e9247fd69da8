"""Outcomes made by hand, for the tests of what CI services read."""

from __future__ import annotations

from pathlib import Path

from mcm_compiler.ci.batch import CompileOutcome
from mcm_compiler.ci.comparison import Comparison
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.report.report_data import build_report
from tests.generators.example_result import example_result


def succeeded(
    model: str, *diagnostics: Diagnostic, comparison: Comparison | None = None
) -> CompileOutcome:
    """A compile of 1.5 s that made a report."""
    report = build_report(example_result())
    return CompileOutcome(model, Path("out") / "x", report, None, comparison, diagnostics, 1.5)


def failed(model: str, *diagnostics: Diagnostic) -> CompileOutcome:
    """A compile of 0.25 s that came to nothing."""
    return CompileOutcome(model, Path("out") / "x", None, None, None, diagnostics, 0.25)
