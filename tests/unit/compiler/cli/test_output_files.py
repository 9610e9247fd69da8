"""Places of files that verbs write: none inside an output folder, no two of them one."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.cli.output_files import (
    refuse_existing,
    refuse_inside_output,
    refuse_same_file,
    write_assignment,
)
from mcm_compiler.diagnostics import CompileError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    Path("out/manifest.json").write_text(json.dumps({"files": {"a.onnx": "its hash"}}))
    Path("out/a.onnx").write_text("a")


def _code(caught: pytest.ExceptionInfo[CompileError]) -> str:
    (found,) = caught.value.diagnostics
    return found.code


@pytest.mark.parametrize("path", ["out/run.pftrace", "link/x", "out/a.onnx"])
def test_no_file_is_added_to_an_output_folder(path: str) -> None:
    Path("link").symlink_to("out")
    with pytest.raises(CompileError) as caught:
        refuse_existing(Path(path), force=True)
    assert _code(caught) == "MCM-U054"


def test_nor_to_one_that_is_about_to_be_written() -> None:
    with pytest.raises(CompileError) as caught:
        refuse_inside_output(Path("new/deep/junit.xml"), Path("new"))
    assert _code(caught) == "MCM-U054"
    refuse_inside_output(Path("new.xml"), Path("new"))


def test_a_folder_with_a_manifest_of_somebody_else_is_no_output_folder() -> None:
    Path("web").mkdir()
    Path("web/manifest.json").write_text('{"name": "app"}')
    refuse_existing(Path("web/page.html"), force=False)
    refuse_existing(Path("beside.html"), force=False)


def test_two_outputs_are_two_files() -> None:
    with pytest.raises(click.UsageError, match="--csv and --html name one file"):
        refuse_same_file({"--csv": Path("a"), "--json": None, "--html": Path("out/../a")})
    refuse_same_file({"--csv": Path("a"), "--json": None, "--html": Path("b"), "--x": None})


def test_an_assignment_makes_the_folders_above_it() -> None:
    write_assignment(Path("deep/down/a.csv"), {"op": 1}, "chip")
    assert "op" in Path("deep/down/a.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (["compile", "m.onnx", "-o", "new", "--junit", "new/j.xml"], 1, "MCM-U054"),
        (["compile", "m.onnx", "n.onnx", "-o", "all", "--junit", "all/m/j.xml"], 1, "MCM-U054"),
        (["compile", "m.onnx", "--junit", "x", "--assignment-out", "x"], 2, "name one file"),
        (["check", "out", "--junit", "out/j.xml"], 1, "MCM-U054"),
        (["simulate", "out", "--trace", "out/t"], 1, "MCM-U054"),
        (["report", "out", "--html", "out/r.html"], 1, "MCM-U054"),
        (["explore", "m", "--sweep", "a=1", "--csv", "x", "--json", "x"], 2, "name one file"),
        (["build", "--junit", "x", "--sarif", "x"], 2, "name one file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_verbs_say_so_before_they_work(arguments: list[str], exit_code: int, told: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == exit_code, result.output
    assert told in result.stderr
    assert not Path("new").exists()
