"""The page on published figures is that of its data, and a row is what a compile gives."""

from __future__ import annotations

import json

import pytest

from tools.reproduce.packages.published_figures import (
    DATA,
    FIGURES,
    MODEL,
    PAGE,
    figures_of,
    packages,
    page,
    point,
)


def test_the_page_is_that_of_the_data() -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(data)
    assert [(r["name"], r["sram_mib"], r["chips"]) for r in data["rows"]] == [
        (p.name, p.sram_mib, p.size[0] * p.size[1]) for p in packages()
    ]


def test_no_figure_is_beyond_what_arrays_and_proofs_allow() -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    found = [row for row in data["rows"] if "period_s" in row]
    assert len(found) > len(FIGURES)
    for row in found:
        known = figures_of(data, row)
        assert row["bound_s"] <= row["period_s"] * (1.0 + 1e-9)
        assert known["cycles"] >= 1.0
        assert known.get("speedup", 1.0) <= row["chips"] * (1.0 + 1e-9)


def test_a_row_is_that_of_a_compile() -> None:
    rows = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
    number = next(k for k, row in enumerate(rows) if row["chips"] == 16 and "period_s" in row)
    again = point(MODEL, packages()[number])
    assert again.keys() == rows[number].keys(), (
        "run: python tools/reproduce/packages/published_figures.py"
    )
    for key in ("replicas", "period_s", "latency_s"):
        assert again[key] == pytest.approx(rows[number][key], rel=0.01)
