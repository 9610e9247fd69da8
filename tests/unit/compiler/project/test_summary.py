"""The summary of a build, and verdicts that need no compile."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from mcm_compiler.ci.batch import exit_code
from mcm_compiler.ci.comparison import Comparison
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.project.cell_record import CellFigures, CellRecord, CellResult, StoredDiagnostic
from mcm_compiler.project.records import Cell, ExpectedFailure, Thresholds
from mcm_compiler.project.summary import MAX_BYTES, counts_text, summary_markdown
from mcm_compiler.project.verdicts import judged
from tests.generators.example_result import example_verdict

FIGURES = CellFigures(1000.0, 1e-3, 2e-3, 9e-4, 0.1, 3, example_verdict())
ERROR = Diagnostic("MCM-I003", "no <model>|", at="a.onnx")
WARNING = Diagnostic("MCM-V021", "not compared", severity=Severity.WARNING)
OPEN = Diagnostic("MCM-U051", "not proven")


def cell(name="a", asked=None, expected=None) -> Cell:
    folder = PurePosixPath(name, "mcm4")
    return Cell(
        f"{name}.onnx", folder, "mcm4", {}, frozenset(), None, {}, asked or Thresholds(), expected,
        "mcmc.toml:1",
    )  # fmt: skip


def record(*found: Diagnostic, figures: CellFigures | None = FIGURES, unproven=()) -> CellRecord:
    stored = tuple(map(StoredDiagnostic.of, found))
    return CellRecord(figures, (), stored, tuple(map(StoredDiagnostic.of, unproven)), 1.0)


def outcome(made: Cell, kept: CellRecord, comparison=None, told=(), cached=False, strict=False):
    return judged(made, CellResult(kept, comparison, told, cached), strict=strict)


@pytest.mark.parametrize(
    ("asked", "codes"),
    [
        (Thresholds(1000.0, 2e-3, 0.1), []),
        (Thresholds(1000.1, None, None), ["MCM-B015"]),
        (Thresholds(None, 1.9e-3, None), ["MCM-B016"]),
        (Thresholds(None, None, 0.09), ["MCM-B017"]),
        (Thresholds(2000.0, 1e-3, 0.0), ["MCM-B015", "MCM-B016", "MCM-B017"]),
    ],
)
def test_thresholds(asked: Thresholds, codes: list[str]) -> None:
    assert outcome(cell(asked=asked), record()).error_codes == codes


def test_figures_that_are_not_known_miss_every_threshold() -> None:
    nothing = CellFigures(None, None, None, None, None, None, example_verdict())
    found = outcome(cell(asked=Thresholds(1.0, 1.0, 0.5)), record(figures=nothing))
    assert found.error_codes == ["MCM-B015", "MCM-B016", "MCM-B017"]
    assert "the latency is unknown, and at most 1.00 s is asked for" in found.diagnostics[1].message


def test_exit_codes() -> None:
    good = outcome(cell(), record(unproven=[OPEN]))
    unproven = outcome(cell(), record(unproven=[OPEN]), strict=True)
    bad = outcome(cell(), record(ERROR, figures=None))
    assert [exit_code([good]), exit_code([good, unproven]), exit_code([unproven, bad])] == [0, 3, 1]


def test_failures_come_first_and_are_explained() -> None:
    expected = ExpectedFailure("MCM-I003", "why", (), "mcmc.toml:3")
    slower = Comparison(1100.0, 1000.0, 0.2, ("x",))
    outcomes = [
        outcome(cell("good"), record(WARNING), cached=True),
        outcome(cell("bad"), record(ERROR, figures=None)),
        outcome(cell("slow"), record(), slower),
        outcome(cell("known", expected=expected), record(ERROR, figures=None)),
    ]
    text = summary_markdown(outcomes)
    head = "4 cells: 3 ok, 1 failed, 1 failed as expected, 1 from the cache"
    assert counts_text(outcomes) == head
    assert head in text
    assert text.index("### Failed") < text.index("### Changed") < text.index("<details>")
    assert "| <code>bad/mcm4</code> | **failed**: MCM-I003 |" in text
    assert "- error\\[MCM-I003\\]: no \\<model\\>\\|<br>at: a.onnx" in text
    assert "| <code>slow/mcm4</code> | ok | 1,000 inferences/s | -9.1 % |" in text
    assert "| <code>known/mcm4</code> | MCM-I003, as expected |" in text
    assert "| <code>good/mcm4</code> | ok, cached |" in text


def test_a_very_long_summary_is_cut() -> None:
    long = Diagnostic("MCM-I003", "ü" * 30_000)
    text = summary_markdown([outcome(cell(), record(*[long] * 40, figures=None))])
    assert MAX_BYTES - 70_000 < len(text.encode()) <= MAX_BYTES + 100
    assert text.endswith("The summary was cut here.\n")
