"""`mcmc check` with many folders: lines, summary, exit code, JUnit, JSON; nothing is left empty."""

from __future__ import annotations

import json
import pickle
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import parser

from mcm_compiler.api import compile_model
from mcm_compiler.ci.checks import check_one, exit_code, list_folders, lost
from mcm_compiler.cli.main import cli
from mcm_compiler.options import CompileOptions
from mcm_compiler.processes.crash_journal import CrashJournal

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x) => (float[2,4] y) { y = Relu (x) }"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    onnx.save(parser.parse_model(TEXT), folder / "net.onnx")
    options = CompileOptions(level=0, inferences=4)
    compile_model(str(folder / "net.onnx"), "mcm4", options, output=folder / "out")
    return folder / "out"


@pytest.fixture
def folders(compiled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    for name in ("out/a", "out/deep/b", "out/c"):
        shutil.copytree(compiled, tmp_path / name)
    (tmp_path / "out" / "c" / "report.json").write_text("{}")
    (tmp_path / "out" / ".hidden").mkdir()
    (tmp_path / "out" / "link").symlink_to(compiled.parent)
    return tmp_path


def check(*arguments):
    return CliRunner().invoke(cli, ["check", *arguments])


def test_a_folder_of_folders(folders):
    done = check("out", "--junit", "reports/check.xml")
    assert done.exit_code == 1
    first, second, third, summary = done.stdout.splitlines()
    assert first.startswith("ok      out/a       ")
    assert second.startswith("FAILED  out/c       MCM-A0")
    assert third.startswith("ok      out/deep/b  ")
    assert summary == "3 folders: 2 ok, 1 failed"
    assert "in out/c:\nerror[" in done.stderr
    suite = ET.parse("reports/check.xml").getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        "mcmc check",
        "3",
        "1",
    )
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["out/c"]


def test_as_json(folders):
    done = check("out/a", "out/c", "out/nowhere", "--format", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert [(one["folder"], one["ok"]) for one in found] == [
        ("out/a", True),
        ("out/c", False),
        ("out/nowhere", False),
    ]
    assert found[0]["steps"][0]["name"] == "files"
    assert found[2]["diagnostics"][0]["code"] == "MCM-A004"


def test_all_hold(folders):
    shutil.rmtree("out/c")
    done = check("out", "out/a", "--strict")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "2 folders: 2 ok, 0 failed"


def test_annotations_on_github(folders, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folders))
    assert "::error file=out/c,title=MCM-A0" in check("out").stderr
    assert "::error file=out/c,title=MCM-A0" in check("out/c").stderr


def test_a_single_folder_keeps_its_lines_and_gets_junit(folders):
    done = check("out/a", "--junit", "one.xml")
    assert done.stdout.splitlines()[-1] == "out/a holds"
    assert ET.parse("one.xml").getroot()[0].get("failures") == "0"
    missing = check("nowhere", "--junit", "one.xml")
    assert missing.exit_code == 1
    assert "error[MCM-A004]: no such folder\n  at: nowhere\n" in missing.stderr
    assert "hint: write it with `mcmc compile MODEL -o nowhere`" in missing.stderr
    case = ET.parse("one.xml").getroot()[0][0]
    assert case.find("failure").get("type") == "MCM-A004"


def test_what_is_for_a_single_folder(folders):
    for option in (["--input", "x.npz"], ["--test-data", "data"]):
        done = check("out", *option)
        assert done.exit_code == 2
        assert "for a single folder" in done.stderr


def test_a_folder_without_output_folders_stands_for_itself(folders):
    Path("empty").mkdir()
    assert list_folders(["empty", "out", "out/a"]) == ("empty", "out/a", "out/c", "out/deep/b")
    done = check("empty")
    assert done.exit_code == 1
    assert "MCM-A004" in done.stderr


def test_outcomes_travel_between_processes(folders):
    for folder in list_folders(["out"]):
        outcome = check_one(folder, strict=False, seeds=1)
        assert pickle.loads(pickle.dumps(outcome)) == outcome


def test_a_process_that_dies_fails_its_folder():
    found = lost("out/a", -9, CrashJournal())
    assert (found.failed, found.line, exit_code([found])) == (True, "MCM-U037", 1)
    assert found.diagnostics[0].message == "the process that checked the folder ended with signal 9"


def test_failed_compiles_leave_no_folders(folders):
    Path("models/deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        Path(f"models/{name}.onnx").write_bytes(b"damaged")
    for arguments in (["models", "-o", "new/out"], ["models/a.onnx", "-o", "new/out/a"]):
        done = CliRunner().invoke(cli, ["compile", *arguments, "--target", "mcm4"])
        assert done.exit_code == 1
        assert not Path("new").exists()
