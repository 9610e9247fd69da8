"""The index of a build: rows, links and diagnostics, whatever the names are."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urljoin

import pytest

from mcm_compiler.artifact import layout
from mcm_compiler.ci.comparison import Comparison
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.project.cell_record import CellFigures, CellRecord, CellResult, StoredDiagnostic
from mcm_compiler.project.index_page import index_bytes
from mcm_compiler.project.records import Cell, ExpectedFailure, Thresholds
from mcm_compiler.project.verdicts import judged
from tests.generators.example_result import example_verdict

FIGURES = CellFigures(1000.0, 1e-3, 2e-3, 9e-4, 0.1, 3, example_verdict())
ERROR = Diagnostic("MCM-I003", "no <model>", at="a.onnx", hint="save it")
WARNING = Diagnostic("MCM-V021", "not compared", severity=Severity.WARNING)
KNOWN = ExpectedFailure("MCM-I003", "why", (), "mcmc.toml:3")


def cell(name: str, expected=None) -> Cell:
    folder = PurePosixPath(name, "mcm4")
    return Cell(
        f"{name}.onnx", folder, "mcm4", {}, frozenset(), None, {}, Thresholds(), expected,
        "mcmc.toml:1",
    )  # fmt: skip


def outcome(made: Cell, *found: Diagnostic, figures=FIGURES, comparison=None, cached=False):
    record = CellRecord(figures, (), tuple(map(StoredDiagnostic.of, found)), (), 1.0)
    return judged(made, CellResult(record, comparison, cached=cached), strict=False)


def paged(output: Path, made: Cell) -> None:
    page = output / f"{made.folder}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("page")


def index(output: Path, cells, outcomes) -> str:
    return index_bytes("shop", output, tuple(cells), tuple(outcomes)).decode()


def rows(text: str) -> dict[str, tuple[str | None, list[str]]]:
    """Of the first table: name of each cell, its link, and its other texts."""
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL):
        first, *rest = re.findall(r"<td[^>]*>(.*?)</td>", row)
        link = re.match(r'<a href="([^"]*)">(.*)</a>', first)
        name = link[2] if link else first
        found[unescape(name)] = (unescape(link[1]) if link else None, rest)
    return found


def test_a_row_per_cell_with_figures_change_and_link(tmp_path) -> None:
    good, slow, bad, known = cell("good"), cell("slow"), cell("bad"), cell("known", KNOWN)
    for made in (good, slow):
        paged(tmp_path, made)
    outcomes = [
        outcome(good, WARNING),
        outcome(slow, comparison=Comparison(1100.0, 1000.0, 0.2, ("x",))),
        outcome(bad, ERROR, figures=None),
        outcome(known, ERROR, figures=None),
    ]
    text = index(tmp_path, [good, slow, bad, known], outcomes)
    found = rows(text)
    assert list(found) == ["good/mcm4", "slow/mcm4", "bad/mcm4", "known/mcm4"]
    figures = ["1,000 inferences/s", "-", "1.00 ms", "10.0 %", "2.00 ms", "3"]
    assert found["good/mcm4"] == ("good/mcm4.html", ["ok", *figures])
    assert found["slow/mcm4"][1][:3] == ["ok", "1,000 inferences/s", "-9.1 %"]
    assert found["bad/mcm4"] == ("#failed", ["failed: MCM-I003", *["-"] * 6])
    assert found["known/mcm4"] == ("#expected", ["MCM-I003, as expected", *["-"] * 6])
    assert "4 cells: 3 ok, 1 failed, 1 failed as expected" in text
    failed, expected, warnings = (text.index(f'id="{key}"') for key in
                                  ("failed", "expected", "warnings"))  # fmt: skip
    assert failed < text.index("no &lt;model&gt;") < expected < text.index("why") < warnings
    assert text.index("not compared") > warnings


def test_a_page_that_is_not_there_is_not_linked(tmp_path) -> None:
    made = cell("good")
    assert rows(index(tmp_path, [made], [outcome(made)]))["good/mcm4"][0] is None


def test_cells_that_were_not_built_stay_with_what_is_known_of_them(tmp_path) -> None:
    built, left, never, odd = (cell(name) for name in ("built", "left", "never", "odd"))
    for made in (left, odd):
        paged(tmp_path, made)
        (tmp_path / made.folder).mkdir()
    report = {name: getattr(FIGURES, name) for name in CellFigures.__struct_fields__}
    report["schema_version"] = layout.REPORT_SCHEMA_VERSION
    (tmp_path / left.folder / layout.REPORT).write_text(json.dumps(report))
    (tmp_path / odd.folder / layout.REPORT).write_text(
        json.dumps({**report, "throughput_per_s": "<b>much"})
    )
    found = rows(index(tmp_path, [built, left, never, odd], [outcome(built)]))
    assert found["left/mcm4"][0] == "left/mcm4.html"
    assert found["left/mcm4"][1][:2] == ["not built this time", "1,000 inferences/s"]
    for name in ("never/mcm4", "odd/mcm4"):
        assert found[name] == (None, ["not built this time", *["-"] * 6])


@pytest.mark.parametrize(
    "name",
    [
        "javascript:alert(1)//",
        "data:text/html,<script>alert(1)</script>",
        "a#b?c&d%41",
        "x\"><img src=x onerror='alert(1)'>",
        "\u202egnp.exe\n",
        "https:evil.example",
    ],
)
def test_hostile_names_are_text_and_lead_to_their_page(tmp_path, name) -> None:
    made = cell(name)
    page = f"{made.folder}.html"
    paged(tmp_path, made)
    found = outcome(made, Diagnostic("MCM-I003", name, at=name, hint=name))
    text = index(tmp_path, [made], [found])
    assert "\u202e" not in text
    assert "<img" not in text
    assert "<script>alert" not in text
    ((link, _),) = rows(text).values()
    base = (tmp_path / "index.html").as_uri()
    address = urljoin(base, link)
    assert address.startswith(base.removesuffix("index.html"))
    assert unquote(address.removeprefix(base.removesuffix("index.html"))) == page


def test_equal_builds_give_equal_bytes_cached_or_not(tmp_path) -> None:
    made = cell("good")
    first = index(tmp_path, [made], [outcome(made)])
    assert first == index(tmp_path, [made], [outcome(made, cached=True)])
