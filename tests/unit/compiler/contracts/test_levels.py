"""Levels of effort as data: registered ones, those of plug-ins, and files."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.levels import Level, load_level
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import DEFAULT_LEVEL, CompileOptions
from mcm_compiler.registry import LEVELS

PLUGIN = """
from mcm_compiler import register
from mcm_compiler.contracts.levels import Level

register("level")(
    Level(
        name="acme-quick",
        summary="cpsat, and no more than three looks",
        strategy='portfolio{members="cpsat;dp"}',
        most_evaluations=3,
        further=0,
    )
)
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Generator[Path]:
    path = tmp_path / "quick.py"
    path.write_text(PLUGIN)
    yield path
    LEVELS.remove("acme-quick")


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def _invoke(*args: str | Path) -> Any:
    return CliRunner().invoke(cli, [*map(str, args)])


def _code(error: pytest.ExceptionInfo[CompileError]) -> str:
    (found,) = error.value.diagnostics
    return found.code


def test_levels_spend_more_and_more() -> None:
    levels = [load_level(number) for number in range(4)]
    assert [level.name for level in levels] == ["0", "1", "2", "3"]
    assert [level.effort_s for level in levels] == [1.0, 1.0, 5.0, 60.0]
    assert [level.most_evaluations for level in levels] == [10_000, 10_000, 40_000, 200_000]
    assert [level.further for level in levels] == [0, 0, 1, 1]
    assert [level.divisions for level in levels] == [0, 1, 3, 6]
    assert [level.rounds for level in levels] == [1, 1, 12, 24]
    assert [level.judged_pipelines for level in levels] == [False, True, True, True]
    assert load_level(str(DEFAULT_LEVEL)) == load_level(DEFAULT_LEVEL)


@pytest.mark.parametrize(
    ("level", "units", "evaluations"),
    [(0, 1, 10_000), (0, 20_000, 5_000), (2, 0, 40_000), (2, 10**6, 200), (3, 1000, 60_000)],
)
def test_evaluations_fall_with_the_size_of_the_problem(
    level: int, units: int, evaluations: int
) -> None:
    assert load_level(level).evaluations(units) == evaluations


def test_a_level_may_allow_less_than_any_built_in_one() -> None:
    assert Level("one", "", "dp", most_evaluations=1).evaluations(10**9) == 1


def test_an_unknown_level_is_told_with_the_known_ones() -> None:
    with pytest.raises(CompileError) as caught:
        load_level(7)
    assert _code(caught) == "MCM-U003"
    assert "known: 0, 1, 2, 3" in str(caught.value)
    result = _invoke("compile", "no_such_model.onnx", "-O7", "--target", "mcm4")
    assert result.exit_code == 1
    assert "error[MCM-U003]" in result.stderr
    assert "unknown level '7'" in result.stderr


def test_a_plugin_adds_a_level(plugin: Path, tmp_path: Path) -> None:
    listed = _invoke("strategies", "--plugin", plugin, "--format", "json")
    rows = {row["name"]: row for row in json.loads(listed.stdout)["levels"]}
    assert set(rows) == {"0", "1", "2", "3", "acme-quick"}
    assert rows["acme-quick"]["origin"] == str(plugin)
    assert rows["acme-quick"]["most_evaluations"] == 3
    assert "-Oacme-quick" in _invoke("strategies", "--plugin", plugin).stdout
    out = tmp_path / "out"
    result = _invoke(
        "compile", "zoo:plain-cnn", "--target", "mcm4", "-O", "acme-quick", "--plugin", plugin,
        "-o", out, "--format", "json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["strategy"] == "portfolio{members=cpsat;dp}"
    assert report["options"]["level"] == "acme-quick"
    assert _invoke("check", out).exit_code == 0


def test_a_file_is_a_level(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        'strategy = "dp{orders=2}"\neffort_s = 2.5\nfurther = 0\njudged_pipelines = false\n',
    )
    level = load_level(str(path))
    assert level == Level(
        "mine", str(path), "dp{orders=2}", effort_s=2.5, further=0, judged_pipelines=False
    )
    result = _invoke(
        "compile", "zoo:plain-cnn", "--target", "mcm4", "-O", path, "-o", tmp_path / "out",
        "--format", "json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["strategy"] == "dp{orders=2}"


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("strategy = dp", "MCM-U008", "the level description is not TOML"),
        ("effort_s = 3", "MCM-U002", "needs the option 'strategy'"),
        ('strategy = "dp"\neffort = 3', "MCM-U002", "no option 'effort'"),
        ('strategy = "dp"\neffort_s = "long"', "MCM-U002", "'long'"),
        ('strategy = "dp"\neffort_s = -1', "MCM-U002", "effort_s is -1.0"),
        ('strategy = "dp"\neffort_s = inf', "MCM-U002", "effort_s is inf"),
        ('strategy = "dp"\nmost_evaluations = 0', "MCM-U002", "not at least 1"),
        ('strategy = "dp"\nfurther = -1', "MCM-U002", "not at least 0"),
        ('strategy = "dp"\n[further]\nx = 1', "MCM-U002", "'further'"),
    ],
)
def test_faults_of_a_file(tmp_path: Path, text: str, code: str, part: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(CompileError) as caught:
        load_level(str(path))
    assert _code(caught) == code
    assert part in str(caught.value)
    assert str(path) in (caught.value.diagnostics[0].at or "")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(CompileError) as caught:
        load_level("./gone.toml")
    assert _code(caught) == "MCM-U008"
    assert "the level file cannot be read" in str(caught.value)


def test_what_is_registered_and_no_level_is_named() -> None:
    LEVELS.add("test-odd", "dp", "odd.py")
    try:
        with pytest.raises(CompileError) as caught:
            load_level("test-odd")
    finally:
        LEVELS.remove("test-odd")
    assert _code(caught) == "MCM-X007"
    assert caught.value.diagnostics[0].at == "odd.py"


def test_a_level_of_python_is_given_by_name() -> None:
    LEVELS.add("test-level", Level("test-level", "", "dp"), "a test")
    try:
        assert load_level(CompileOptions(level="test-level").level).strategy == "dp"
    finally:
        LEVELS.remove("test-level")
