"""Reports of an earlier build: found, read, or diagnosed."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from mcm_compiler.ci.baseline import read_baseline, report_path
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report.report_data import build_report
from mcm_compiler.text import json_text
from tests.generators.example_result import example_result


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    result = example_result()
    assert result.program is not None
    json_text.write(tmp_path / "report.json", build_report(result))
    json_text.write(tmp_path / "program.json", result.program.to_dict())
    return tmp_path / "report.json"


def _code_and_place(path: Path) -> tuple[str, str | None]:
    with pytest.raises(CompileError) as caught:
        read_baseline(path)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.hint
    return diagnostic.code, diagnostic.at


def test_a_report_is_found_by_its_name_its_folder_and_its_model(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.touch()
    assert report_path(report, None) == report
    assert report_path(tmp_path, None) == report
    deep = report_path(tmp_path, PurePosixPath("a/b"))
    assert deep == tmp_path / "a" / "b" / "report.json"


@pytest.mark.parametrize("folder", [None, PurePosixPath("a")])
def test_a_baseline_that_is_not_there(tmp_path: Path, folder: PurePosixPath | None) -> None:
    with pytest.raises(CompileError) as caught:
        report_path(tmp_path / "gone", folder)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U030"]


def test_one_report_is_no_baseline_for_many_models(tmp_path: Path) -> None:
    (tmp_path / "report.json").touch()
    with pytest.raises(CompileError) as caught:
        report_path(tmp_path / "report.json", PurePosixPath("a"))
    assert "need a folder" in caught.value.diagnostics[0].message


def test_a_model_that_is_not_in_the_baseline(tmp_path: Path) -> None:
    assert read_baseline(tmp_path / "new" / "report.json") is None


def test_reading(stored: Path) -> None:
    figures = read_baseline(stored)
    assert figures is not None
    assert figures.throughput_per_s == 8000.0
    assert figures.all_ops
    stored.with_name("program.json").unlink()
    alone = read_baseline(stored)
    assert alone is not None
    assert not alone.all_ops


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"schema_version": 99}',
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "model": 3, "target": null, "bottleneck": []}',
    ],
)
def test_damaged_reports(stored: Path, damage: bytes) -> None:
    stored.write_bytes(damage)
    assert _code_and_place(stored) == ("MCM-U030", str(stored))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("throughput_per_s", None),
        ("throughput_per_s", 0),
        ("throughput_per_s", -1.0),
        ("throughput_per_s", "fast"),
        ("period_s", "NaN"),
        ("chips", 7),
        ("chips", [{}]),
        ("links", [3]),
        ("versions", None),
        ("model", None),
        ("bottleneck", {"chip": "x"}),
    ],
)
def test_damaged_fields(stored: Path, field: str, value: object) -> None:
    report = json.loads(stored.read_bytes())
    report[field] = value
    stored.write_text(json.dumps(report))
    assert _code_and_place(stored) == ("MCM-U030", str(stored))


@pytest.mark.parametrize("damage", ["", "{}", '{"chips": [{"chip": 0, "kernels": [4]}]}'])
def test_damaged_programs(stored: Path, damage: str) -> None:
    program = stored.with_name("program.json")
    program.write_text(damage)
    assert _code_and_place(stored) == ("MCM-U030", str(program))
