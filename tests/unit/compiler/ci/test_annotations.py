"""Workflow commands for GitHub, whatever the names hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcm_compiler.ci.annotations import path_in_repository, wanted, workflow_commands
from mcm_compiler.diagnostics import Diagnostic, Severity

ERROR = Diagnostic("MCM-I001", "50 % of it is missing", at="b.onnx", hint="look")


@pytest.mark.parametrize(
    ("value", "there"), [("true", True), ("false", False), ("1", False), (None, False)]
)
def test_only_on_github(value: str | None, there: bool) -> None:
    assert wanted({} if value is None else {"GITHUB_ACTIONS": value}) is there


def test_an_error() -> None:
    assert workflow_commands("m/b.onnx", [ERROR], {}) == [
        "::error file=m/b.onnx,title=MCM-I001 m/b.onnx::50 %25 of it is missing"
        "%0A  at: b.onnx%0A  hint: look"
    ]


def test_warnings_are_annotations_and_notes_are_not() -> None:
    warning = Diagnostic("MCM-P020", "odd", severity=Severity.WARNING)
    note = Diagnostic("MCM-U035", "new", severity=Severity.NOTE)
    assert workflow_commands("b.onnx", [note, warning], {}) == [
        "::warning file=b.onnx,title=MCM-P020 b.onnx::odd"
    ]


def test_a_zoo_model_has_no_file() -> None:
    (line,) = workflow_commands("zoo:bert{layers=2,seed=1}", [ERROR], {})
    assert line.startswith("::error title=MCM-I001 zoo%3Abert{layers=2%2Cseed=1}::")


@pytest.mark.parametrize(
    "name", ["a::error::b", "a,line=1", "a%0A::set-env", "a\n::error::b", "a\r::stop-commands::x"]
)
def test_a_hostile_name_stays_one_command_with_two_properties(name: str) -> None:
    diagnostic = Diagnostic("MCM-I001", name, at=name, hint=name)
    (line,) = workflow_commands(name, [diagnostic], {})
    assert line.splitlines() == [line]
    head, message = line.removeprefix("::error ").split("::", 1)
    properties = head.split(",")
    assert [p.partition("=")[0] for p in properties] == ["file", "title"]
    assert ":" not in head
    shown = name.encode("unicode_escape").decode("ascii")
    assert message.replace("%25", "%").startswith(shown)


def test_paths_start_at_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    environment = {"GITHUB_WORKSPACE": str(tmp_path)}
    (inside,) = workflow_commands("m/b.onnx", [ERROR], environment)
    assert inside.startswith("::error file=sub/m/b.onnx,")
    (outside,) = workflow_commands("../../b.onnx", [ERROR], environment)
    assert outside.startswith("::error file=../../b.onnx,")


def test_paths_start_at_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was checked out to, and from wherever the command runs."""
    work = tmp_path / "work"
    (work / "repo" / ".git").mkdir(parents=True)
    (work / "repo" / "module" / "models").mkdir(parents=True)
    (work / "repo" / "module" / ".git").write_text("gitdir: ../.git/modules/module\n")
    (tmp_path / "link").symlink_to("work")
    monkeypatch.chdir(tmp_path / "link" / "repo")
    for workspace in (work, tmp_path / "link", work / "repo"):
        environment = {"GITHUB_WORKSPACE": str(workspace)}
        assert path_in_repository("module/models/a.onnx", environment) == "module/models/a.onnx"
        absolute = work / "repo" / "module" / "models" / ".." / "b.onnx"
        assert path_in_repository(absolute, environment) == "module/b.onnx"
        monkeypatch.chdir(tmp_path / "link" / "repo")
    # A link in the repository is shown where it is, not where it leads to.
    (work / "repo" / "c.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    assert path_in_repository("c.onnx", {"GITHUB_WORKSPACE": str(work)}) == "c.onnx"
    assert path_in_repository("module/models/a.onnx", {}) == "models/a.onnx"
