"""`mcmc compile` with many models; the compiler itself is a stand-in."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mcm_compiler import api
from mcm_compiler.ci.batch import lost
from mcm_compiler.cli.main import cli
from mcm_compiler.cli.many_models import outcome_line, outcome_lines
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.crash_journal import CrashJournal
from mcm_compiler.processes.foreign_code import DEBUG_VARIABLE
from mcm_compiler.report.report_data import build_report
from mcm_compiler.text import json_text
from tests.generators.example_outcome import succeeded
from tests.generators.example_result import bare_result, example_result


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.delenv(DEBUG_VARIABLE, raising=False)
    for name in ("bad", "good", "odd"):
        path = Path("m", f"{name}.onnx")
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def compile_model(model: str, *_args: Any, **rest: Any) -> Any:
        if "bad" in model:
            raise CompileError(Diagnostic("MCM-I003", "not a model", at=model, hint="none"))
        if "odd" in model:
            raise ZeroDivisionError("oops")
        return bare_result() if "bare" in model else example_result(rest["output"])

    monkeypatch.setattr(api, "compile_model", compile_model)


def _invoke(*args: str, **extra: Any) -> Any:
    return CliRunner().invoke(cli, ["compile", *args], **extra)


def _baseline(folder: str, throughput_per_s: float) -> None:
    report = build_report(example_result())
    report |= {"throughput_per_s": throughput_per_s, "period_s": 1.0 / throughput_per_s}
    path = Path(folder, "report.json")
    path.parent.mkdir(parents=True)
    json_text.write(path, report)


def test_failures_do_not_stop_the_rest() -> None:
    result = _invoke("m", "-o", "out")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "FAILED  m/bad.onnx   MCM-I003",
        "ok      m/good.onnx      8,000 inferences/s  period  125 us  gap    10.0 %   3 chips",
        "FAILED  m/odd.onnx   MCM-U099",
        "3 models: 1 ok, 2 failed",
    ]
    assert "in m/bad.onnx:\nerror[MCM-I003]: not a model\n" in result.stderr
    assert "internal error: ZeroDivisionError: oops" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_stack_trace_of_an_internal_error_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    assert _invoke("m", "-o", "out").stdout.endswith("3 models: 1 ok, 2 failed\n")


def test_the_seconds_of_a_model_follow_its_diagnostics() -> None:
    """They are there as soon as the model is done, however long the others take."""
    lines = _invoke("m", "-o", "out", "--timings").stderr.splitlines()
    models = ("m/bad.onnx", "m/good.onnx", "m/odd.onnx")
    places = [[line.split()[0] for line in lines].index(model) for model in models]
    assert lines.index("in m/bad.onnx:") < places[0] < places[1] < lines.index("in m/odd.onnx:")
    assert lines.index("in m/odd.onnx:") < places[2]
    assert all(lines[place].endswith(" s") for place in places)


def test_all_good() -> None:
    result = _invoke("m/good.onnx", "zoo:bert", "-o", "out", "--timings")
    assert result.exit_code == 0
    assert result.stdout.endswith("2 models: 2 ok, 0 failed\n")
    assert result.stderr.count(" s\n") == 3


def test_json_is_a_list() -> None:
    result = _invoke("m", "-o", "out", "--format", "json")
    assert result.exit_code == 1
    bad, good, _odd = json.loads(result.stdout)
    assert bad == {
        "model": "m/bad.onnx",
        "folder": None,
        "ok": False,
        "report": None,
        "comparison": None,
        "diagnostics": [
            {
                "severity": "error",
                "code": "MCM-I003",
                "message": "not a model",
                "at": "m/bad.onnx",
                "hint": "none",
            }
        ],
    }
    assert (good["ok"], good["folder"], good["comparison"]) == (True, "out/good", None)
    assert good["report"] == build_report(example_result())


def test_junit_and_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = _invoke("m", "-o", "out", "--junit", "junit.xml")
    suite = ET.parse("junit.xml").getroot()[0]
    assert [len(case.findall("failure")) for case in suite] == [1, 0, 1]
    commands = [line for line in result.stderr.splitlines() if line.startswith("::error ")]
    assert [c.partition(",")[0] for c in commands] == [
        "::error file=m/bad.onnx",
        "::error file=m/odd.onnx",
    ]
    assert "::" not in result.stdout


def test_a_junit_file_that_cannot_be_written() -> None:
    result = _invoke("m/good.onnx", "zoo:bert", "-o", "out", "--junit", "m/good.onnx/x.xml")
    assert result.exit_code == 1
    assert "error[MCM-A002]" in result.stderr


def test_a_junit_file_in_the_place_of_a_page() -> None:
    result = _invoke("m", "-o", "out", "--html", "--junit", "out/odd.html")
    assert result.exit_code == 2
    assert "--html and --junit name one file" in result.stderr
    assert not Path("out").exists()


def test_a_baseline_for_each() -> None:
    for name, rate in (("a", 9000.0), ("b", 8000.0), ("c", 7000.0)):
        _baseline(f"old/{name}", rate)
    Path("old/d").mkdir()
    Path("old/d/report.json").write_text("{}")
    result = _invoke(*(f"{name}.onnx" for name in "abcde"), "-o", "out", "--baseline", "old")
    assert result.exit_code == 1
    assert [(line[:6], line[-7:].strip()) for line in result.stdout.splitlines()] == [
        ("FAILED", "-11.1 %"),
        ("ok    ", "+0.0 %"),
        ("ok    ", "+14.3 %"),
        ("FAILED", "3 chips"),
        ("ok    ", "3 chips"),
        ("5 mode", "aseline"),
    ]
    assert result.stdout.endswith("5 models: 3 ok, 2 failed, 1 of them slower than the baseline\n")
    for code in ("error[MCM-U031]", "note[MCM-U033]", "error[MCM-U030]", "note[MCM-U035]"):
        assert result.stderr.count(code) == 1


def test_a_comparison_in_json() -> None:
    _baseline("old/a", 16000.0)
    args = ("a.onnx", "b.onnx", "-o", "out", "--baseline", "old", "--max-regression", "60%")
    first, second = json.loads(_invoke(*args, "--format", "json").stdout)
    assert first["comparison"]["change"] == -0.5
    assert first["comparison"]["regressed"] is False
    assert second["comparison"] is None


def test_nothing_to_compare() -> None:
    _baseline("old/bare", 8000.0)
    result = _invoke("bare.onnx", "b.onnx", "-o", "out", "--baseline", "old")
    assert result.exit_code == 1
    assert "error[MCM-U038]" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["m"],
        ["m", "-o", "out", "--print-after", "fuse"],
        ["m", "-o", "out", "--jobs", "0"],
        ["m", "-o", "out", "--max-regression", "3%"],
        ["m", "-o", "out", "--baseline", "old", "--max-regression", "3"],
    ],
)
def test_wrong_usage(args: list[str]) -> None:
    assert _invoke(*args).exit_code == 2


def test_a_folder_without_models() -> None:
    Path("empty").mkdir()
    result = _invoke("empty", "-o", "out", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["diagnostics"][0]["code"] == "MCM-U034"


def test_hostile_file_names_do_not_reach_the_terminal() -> None:
    Path("m", "\x1b[31m\n::error::x.onnx").touch()
    result = _invoke("m", "-o", "out")
    assert "\x1b" not in result.output
    assert not any(line.startswith("::") for line in result.output.splitlines())


def test_a_process_that_died_is_diagnosed() -> None:
    from mcm_compiler.ci.batch import Job

    job = Job("a.onnx", Path("out/a"))
    (killed,) = lost(job, -9, CrashJournal()).diagnostics
    assert (killed.code, killed.at) == ("MCM-U037", "a.onnx")
    assert "signal 9" in killed.message
    (ended,) = lost(job, 3, CrashJournal(("model 'a.onnx'", "pass 'verify'"))).diagnostics
    assert "exit code 3" in ended.message
    assert ended.at == "model 'a.onnx', pass 'verify'"


def test_numbers_stand_below_the_name_on_narrow_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = succeeded("a/long/name.onnx")
    monkeypatch.setattr("mcm_compiler.cli.many_models.terminal_width", lambda: 40)
    lines = [click.unstyle(line) for line in outcome_lines(outcome, 16)]
    assert lines == [
        "ok      a/long/name.onnx",
        "        8,000 inferences/s, period",
        "        125 us, gap 10.0 %, 3 chips",
    ]
    monkeypatch.setattr("mcm_compiler.cli.many_models.terminal_width", lambda: None)
    assert outcome_lines(outcome, 16) == [outcome_line(outcome, 16)]
