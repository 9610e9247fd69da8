"""The page on throughput against latency is that of its data, whose bounds hold."""

from __future__ import annotations

import json

import pytest

from tools.reproduce.latency_front import (
    DATA,
    MODEL,
    PAGE,
    PASSES,
    PLOT,
    TARGET,
    asked,
    page,
    picture,
    point,
)


def test_the_page_is_that_of_the_data() -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(data)
    assert PLOT.read_text(encoding="utf-8") == picture(data)
    assert [row["option"] for row in data["rows"]] == list(asked())


def test_the_row_without_options_is_that_of_a_compile() -> None:
    rows = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
    recorded = next(row for row in rows if not row["option"])
    found = point(MODEL, TARGET, {})
    assert found["period_s"] == pytest.approx(recorded["period_s"], rel=1e-3)


def test_less_time_never_brings_more_throughput() -> None:
    rows = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
    limited = [row for row in rows if "max-latency" in row["option"]]
    assert all(row["bound"] <= row["value"] for row in rows if row["option"])
    periods = [row["period_s"] for row in limited]
    assert periods == sorted(periods, reverse=True)
    assert rows[0]["latency_s"] < min(row["latency_s"] for row in limited)


def test_a_point_is_that_of_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    # Undivided: a limit on latency seeks no divisions, as the least latency does.
    undivided = PASSES.replace("parallelize", "parallelize{search=false}")
    monkeypatch.setattr("tools.reproduce.latency_front.PASSES", undivided)
    least = point("zoo:plain-cnn", "mcm4", {"objective": "latency"})
    assert least["value"] == least["latency_s"] == pytest.approx(least["bound"])
    within = point("zoo:plain-cnn", "mcm4", {"max_latency_s": least["latency_s"]})
    assert within["latency_s"] <= least["latency_s"] * (1.0 + 1e-9)
    assert within["period_s"] <= least["period_s"] * (1.0 + 1e-9)
