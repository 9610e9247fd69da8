"""The page on utilisation is that of its data, and a slower model is named."""

from __future__ import annotations

import json

import pytest

from tools.reproduce.packages.utilisation_page import files
from tools.reproduce.packages.zoo_on_packages import DATA, RINGS, SHOWN, main, slower, table


def test_page_table_and_charts_are_those_of_the_data() -> None:
    made = files(json.loads(DATA.read_text(encoding="utf-8")), SHOWN, RINGS)
    assert {path.suffix for path in made} == {".md", ".csv", ".svg"}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text


def test_rows_agree_with_what_they_divide() -> None:
    rows = [side for row in json.loads(DATA.read_text("utf-8")).values() for side in row.values()]
    found = [row for row in rows if "period_s" in row]
    assert found
    for row in found:
        assert row["bound_s"] <= row["period_s"] * (1.0 + 1e-9)
        assert row["replicas"] * row["round"] >= 1


def test_what_is_slower_or_no_longer_compiles_is_named() -> None:
    row = {"period_s": 1e-3, "ratio": 1.0, "cpu_s": 1.0, "replicas": 1, "round": 2}
    late = {"base": row, "new": {**row, "period_s": 1.001e-3}}
    data = {
        "a": {"base": row, "new": row},
        "b": late,
        "c": {"base": row, "new": {"refused": "MCM-P015"}},
        "d": {"base": {"refused": "MCM-P015"}, "new": row},
        "e": {"base": row},
    }
    assert [key for key, found in data.items() if slower(found)] == ["b", "c"]
    assert table(data)[-1] == "slower than base: b, c"


def test_one_compile_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--one", "--models", "unet-cnn{image_size=16}", "--packages", "mcm4"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["ratio"] > 0.5
    assert row["replicas"] * row["round"] >= 1
