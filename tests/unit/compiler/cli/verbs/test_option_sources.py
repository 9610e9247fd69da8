"""Sources of the options of a compile: command line, project file, or both; the report has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.cli.main import cli
from mcm_compiler.options import CompileOptions
from tests.generators.changed_folders import rehash
from tests.generators.mlp_files import write_network

LINE, FILE, BOTH = "command line", "mcmc.toml", "command line, over mcmc.toml"
PROJECT = """
targets = "mcm4"
level = 0
replicas = 1
seed = 3
dims = { batch = 2 }
[[models]]
files = "models/*.onnx"
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_network(Path("models/a.onnx"))


def _run(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def _report(folder: str) -> dict[str, Any]:
    return json.loads((Path(folder) / "report.json").read_text())


def test_the_command_line_wins_over_the_project_file_and_the_report_says_so() -> None:
    Path("mcmc.toml").write_text(PROJECT)
    _run("build", "--jobs", "1")
    folder = "build/mcmc/a/mcm4"
    of_file = {"level": FILE, "replicas": FILE, "seed": FILE, "dims": FILE}
    assert _report(folder)["option_sources"] == of_file
    words = ("build", "--jobs", "1", "--seed", "7", "--inferences", "32", "--dim", "batch=1")
    assert "cached" not in _run(*words).stdout
    report = _report(folder)
    assert report["options"]["seed"] == report["seed"] == 7
    assert report["options"]["dims"] == {"batch": 1}
    given = {"seed": BOTH, "dims": BOTH, "inferences": LINE}
    assert report["option_sources"] == of_file | given
    assert "cached" in _run(*words).stdout
    # Of equal values as well: one of the two may change later.
    assert "cached" not in _run(*words, "-O0").stdout
    assert _report(folder)["option_sources"]["level"] == BOTH
    for form in ("text", "markdown"):
        text = " ".join(_run("report", folder, "--full", "--format", form).stdout.split())
        assert f"level 0 ({BOTH}), replicas 1 ({FILE}), seed 7 ({BOTH})" in text
    _run("check", folder)


@pytest.mark.parametrize(
    ("model", "words", "level", "source", "folder"),
    [
        ("level = 1", ("-O0",), 0, BOTH, "a/mcm4"),
        ("levels = [0, 1]", ("-O0",), 0, BOTH, "a/mcm4"),
        ("levels = [0, 1]", (), 1, FILE, "a/mcm4/O1"),
        ('profiles = [{ name = "p", level = 0 }]', ("-O1",), 1, BOTH, "a/p/mcm4"),
    ],
)
def test_it_wins_over_models_and_profiles(
    model: str, words: tuple[str, ...], level: int, source: str, folder: str
) -> None:
    Path("mcmc.toml").write_text(PROJECT.replace("level = 0\n", "") + model)
    _run("build", "--jobs", "1", "--no-cache", *words)
    report = _report(f"build/mcmc/{folder}")
    assert report["options"]["level"] == level
    assert report["option_sources"]["level"] == source


def test_paths_of_the_command_line_are_those_of_the_working_folder() -> None:
    Path("mcmc.toml").write_text(PROJECT)
    _run("compile", "models/a.onnx", "--target", "mcm4", "-O0", "--assignment-out", "a.csv",
         "--replicas", "1", "--dim", "batch=2", "-o", "out")  # fmt: skip
    Path("p").mkdir()
    Path("p/m").mkdir()
    write_network(Path("p/m/a.onnx"))
    Path("p/mcmc.toml").write_text(PROJECT.replace("models/", "m/"))
    _run("build", "p", "--jobs", "1", "--assignment", "a.csv")
    report = _report("p/build/mcmc/a/mcm4")
    assert report["options"]["assignment"] == "../a.csv"
    assert report["option_sources"]["assignment"] == LINE


def test_a_size_of_the_command_line_that_no_model_has_is_noted() -> None:
    Path("mcmc.toml").write_text(PROJECT)
    told = _run("build", "--jobs", "1", "--no-cache", "--dim", "bath=3").stderr
    assert "no model has the dimension 'bath'" in told
    assert "at: option --dim" in told
    assert "did you mean 'batch'?" in told


def test_a_changed_source_does_not_hold() -> None:
    Path("mcmc.toml").write_text(PROJECT)
    _run("build", "--jobs", "1", "--seed", "7")
    folder = Path("build/mcmc/a/mcm4")
    report = _report(str(folder))
    report["option_sources"]["seed"] = FILE
    (folder / "report.json").write_text(json.dumps(report))
    rehash(folder)
    assert "option_sources" in _run("check", str(folder), code=1).output


def test_equal_options_give_equal_bytes_from_the_command_line_and_from_python() -> None:
    words = ("--target", "mcm4", "-O0", "--dim", "batch=1", "--seed", "0")
    _run("compile", "models/a.onnx", *words, "-o", "out")
    options = CompileOptions(level=0, dims={"batch": 1})
    compile_model("models/a.onnx", "mcm4", options, output="python")
    assert Path("out/report.json").read_bytes() == Path("python/report.json").read_bytes()
    assert "option_sources" not in _report("out")
