"""`mcmc check`, `run`, `simulate` and `report`: verbs on a compiled folder."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mcm_compiler.checking.check import CheckReport
from mcm_compiler.checking.entry import run_folder as run_module
from mcm_compiler.checking.entry import run_folder as simulate_module
from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.program import LoweredProgram, Timeline
from mcm_compiler.contracts.verification import OutputComparison, Verification
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.execution.npz_inputs import read_npz, write_npz
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.report.perfetto_trace import write_trace
from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.terminal import report_text
from mcm_compiler.results.strictness import CheckStep
from mcm_compiler.text import json_text
from tests.generators.example_result import ExampleTarget, example_result
from tests.generators.example_timeline import example_timeline


def _invoke(*args: str) -> Any:
    return CliRunner().invoke(cli, list(args))


def _code(caught: pytest.ExceptionInfo[CompileError]) -> str:
    return caught.value.diagnostics[0].code


# check


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands in for `check_folder`; `holds` decides, `seeds` tells what was asked for."""
    state: dict[str, Any] = {"holds": True}

    def check_folder(
        folder: Path,
        *,
        seeds: Any,
        proven_seeds: Any,
        data: Any,
        test_data: Any,
        model: str | None = None,
        progress: Any = None,
    ) -> CheckReport:
        state["seeds"] = list(seeds)
        state["proven_seeds"] = proven_seeds
        state["data"] = data
        state["test_data"] = test_data
        state["model"] = model
        state["folder"] = folder
        holds = state["holds"]
        faults = () if holds else (Diagnostic("MCM-A008", "the file was changed"),)
        return CheckReport(
            steps=(
                CheckStep("hashes", True, False, "41 hashes"),
                CheckStep("equality", holds, False, "1 output"),
            ),
            diagnostics=faults,
            verification=Verification((0,), (OutputComparison("y", True, 0.0, 0.0),)),
        )

    monkeypatch.setattr("mcm_compiler.ci.checks.check_folder", check_folder)
    return state


def test_check_prints_a_line_per_step(verdict: dict[str, Any]) -> None:
    result = _invoke("check", "net.mcm36", "--seeds", "3", "--seed", "5")
    assert result.exit_code == 0
    assert verdict["seeds"] == [5, 6, 7]
    assert verdict["folder"] == Path("net.mcm36")
    assert result.stdout.splitlines() == [
        "ok    hashes    41 hashes",
        "ok    equality  1 output",
        "net.mcm36 holds",
    ]


def test_a_check_that_fails_exits_with_1(verdict: dict[str, Any]) -> None:
    verdict["holds"] = False
    result = _invoke("check", "net.mcm36")
    assert result.exit_code == 1
    assert "FAIL  equality  1 output" in result.stdout
    assert "net.mcm36 does not hold" in result.stdout
    assert "error[MCM-A008]: the file was changed" in result.stderr


@pytest.mark.parametrize("holds", [True, False])
def test_check_as_json(verdict: dict[str, Any], holds: bool) -> None:
    verdict["holds"] = holds
    result = _invoke("check", "net.mcm36", "--format", "json")
    assert result.exit_code == (0 if holds else 1)
    data = json.loads(result.stdout)
    assert data["holds"] is holds
    assert [step["name"] for step in data["steps"]] == ["hashes", "equality"]
    assert data["verification"]["outputs"][0]["bit_equal"] is True
    assert len(data["diagnostics"]) == (0 if holds else 1)


def test_check_with_own_data(verdict: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.ones(2))
    assert _invoke("check", "net.mcm36").exit_code == 0
    assert (verdict["seeds"], verdict["data"]) == ([0, 1], [])
    assert verdict["proven_seeds"] == 1
    assert _invoke("check", "net.mcm36", "--seeds", "3").exit_code == 0
    assert (verdict["seeds"], verdict["proven_seeds"]) == ([0, 1, 2], None)
    assert _invoke("check", "net.mcm36", "--input", str(path)).exit_code == 0
    assert verdict["seeds"] == []
    (data,) = verdict["data"]
    assert data.name == str(path)
    assert data.inputs["x"].tolist() == [1, 1]
    arguments = ["--test-data", str(tmp_path), "--seeds", "1"]
    assert _invoke("check", "net.mcm36", *arguments).exit_code == 0
    assert (verdict["seeds"], verdict["test_data"]) == ([0], tmp_path)
    assert _invoke("check", "net.mcm36", "--seeds", "0").exit_code == 2
    assert verdict["model"] is None
    assert _invoke("check", "net.mcm36", "--model", "zoo:net").exit_code == 0
    assert verdict["model"] == "zoo:net"


def test_seeds_end_where_seeds_end(verdict: dict[str, Any]) -> None:
    assert _invoke("check", "x", "--seed", str(2**63 - 1), "--seeds", "1").exit_code == 0
    assert _invoke("check", "x", "--seed", str(2**63 - 1), "--seeds", "2").exit_code == 2


# run


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_folder(
        _folder: Path, inputs: Mapping[str, Any], _steps: int, _before: Any = None
    ) -> dict[str, Any]:
        return {"y/out": inputs["x"] * 2, "file": np.array(["a", "bc"], dtype=object)}

    monkeypatch.setattr(run_module, "run_folder", run_folder)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(3, dtype=np.float32))
    return path


@pytest.mark.usefixtures("doubled")
def test_run_tells_names_types_and_shapes(inputs: Path) -> None:
    result = _invoke("run", "net.mcm36", "--input", str(inputs))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["y/out  float32  [3]", "file   string   [2]"]
    data = json.loads(_invoke("run", "net", "-i", str(inputs), "--format", "json").stdout)
    assert data["outputs"][0] == {"name": "y/out", "type": "float32", "shape": [3]}


@pytest.mark.usefixtures("doubled")
def test_run_writes_the_outputs_once(inputs: Path, tmp_path: Path) -> None:
    path = tmp_path / "y.npz"
    args = ("run", "net.mcm36", "--input", str(inputs), "-o", str(path))
    assert _invoke(*args).exit_code == 0
    written = read_npz(path)
    assert written["y/out"].tolist() == [0.0, 2.0, 4.0]
    assert written["file"].tolist() == ["a", "bc"]
    result = _invoke(*args)
    assert result.exit_code == 1
    assert "error[MCM-U021]" in result.stderr
    assert _invoke(*args, "--force").exit_code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npz", "y.npz"]


def test_equal_arrays_give_equal_files(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_npz(tmp_path / name, {"x": np.ones((2, 2)), "s": np.array(3, np.int8)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_outputs_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        write_npz(tmp_path / "y.npz", {"seq": [np.ones(2)], "ok": np.ones(2)})
    assert _code(caught) == "MCM-U022"
    assert list(tmp_path.iterdir()) == []


def test_writing_into_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        write_npz(tmp_path / "gone" / "y.npz", {"x": np.ones(2)})
    assert _code(caught) == "MCM-A002"


def _pickled(path: Path) -> None:
    np.savez(path, x=np.array([{}], dtype=object))


def _cut_short(path: Path) -> None:
    np.savez(path, x=np.ones(1000))
    path.write_bytes(path.read_bytes()[:500])


def _single_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def _garbage(path: Path) -> None:
    path.write_bytes(b"not a zip")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _missing(path: Path) -> None:
    pass


def _corrupt_member(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00nonsense")


@pytest.mark.parametrize(
    "make", [_pickled, _cut_short, _single_array, _garbage, _empty, _missing, _corrupt_member]
)
def test_input_that_cannot_be_read(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "x.npz"
    make(path)
    result = _invoke("run", "net.mcm36", "--input", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith("error[MCM-U020]: the input arrays cannot be read: ")


def test_run_asks_for_the_input_that_it_needs() -> None:
    result = _invoke("run", "net.mcm36")
    assert result.exit_code == 2
    assert "Missing option '-i' / '--input': --pipelined alone draws inputs" in result.stderr


# simulate


class _Simulator:
    """Knows its verdict beforehand."""

    name = "ring-events"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def run(self, program: LoweredProgram, inferences: int) -> Any:
        self.asked.append(inferences)
        return example_result().simulation

    def timeline(self, program: LoweredProgram, inferences: int) -> Timeline:
        return example_timeline(inferences)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> _Simulator:
    simulator = _Simulator()

    class Target(ExampleTarget):
        def simulator(self) -> _Simulator:
            return simulator

    def read_compiled(_folder: Path) -> SimpleNamespace:
        result = example_result()
        return SimpleNamespace(
            manifest=SimpleNamespace(replicas=1, round=1, chips_each=0, at_once=1),
            target=Target(),
            program=result.program,
            chips=result.chips or (),
            certificate=result.certificate,
        )

    monkeypatch.setattr(simulate_module, "read_compiled", read_compiled)
    return simulator


def test_simulate_prints_rates_and_bars(simulated: _Simulator) -> None:
    result = _invoke("simulate", "net.mcm36", "--inferences", "8")
    assert result.exit_code == 0, result.output
    assert simulated.asked == [8]
    assert " throughput  8,000 inferences/s" in result.stdout
    assert "chip 1 is busy 125 us" in result.stdout
    assert "99.9 %" in result.stdout
    assert "host links" in result.stdout
    assert "steady from number 5" in result.stdout


def test_simulate_as_json(simulated: _Simulator) -> None:
    data = json.loads(_invoke("simulate", "net.mcm36", "--format", "json").stdout)
    report = build_report(example_result())
    same = ("throughput_per_s", "period_s", "latency_s", "steady_from", "bottleneck", "chips")
    for key in (*same, "links", "inferences"):
        assert data[key] == report[key]
    assert simulated.asked == [64]


def test_simulate_writes_a_trace_once(simulated: _Simulator, tmp_path: Path) -> None:
    path = tmp_path / "run.pftrace"
    args = ("simulate", "net.mcm36", "--inferences", "3", "--trace", str(path))
    result = _invoke(*args)
    assert result.exit_code == 0, result.output
    assert f"wrote {path}" in result.stderr
    stream = io.BytesIO()
    write_trace(example_timeline(3), stream)
    assert path.read_bytes() == stream.getvalue()
    refused = _invoke(*args)
    assert refused.exit_code == 1
    assert "error[MCM-U021]" in refused.stderr
    assert len(simulated.asked) == 1
    assert _invoke(*args, "--force").exit_code == 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("simulated")
def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    result = _invoke("simulate", "net", "--trace", str(tmp_path / "gone" / "run.pftrace"))
    assert result.exit_code == 1
    assert "error[MCM-A002]" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_would_be_too_large_is_refused_at_once(
    simulated: _Simulator, tmp_path: Path
) -> None:
    path = tmp_path / "run.pftrace"
    result = _invoke("simulate", "net", "--inferences", "100000", "--trace", str(path))
    assert result.exit_code == 1
    assert "error[MCM-A012]" in result.stderr
    assert simulated.asked == []


# report


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    (tmp_path / "report.json").write_text(json_text.dump(build_report(example_result())))
    return tmp_path


def test_a_stored_report_is_shown_as_when_it_was_made(stored: Path) -> None:
    report = build_report(example_result())
    path = str(stored / "report.json")
    shown = _invoke("report", path, "--full")
    assert shown.stdout == report_text(report)
    first_screen = _invoke("report", path).stdout
    assert shown.stdout.startswith(first_screen)
    assert len(first_screen.splitlines()) < 20 < len(shown.stdout.splitlines())
    assert shown.stderr.startswith("note[MCM-A021]: ")
    markdown = _invoke("report", path, "--format", "markdown").stdout
    assert markdown == render_markdown(report)
    as_json = _invoke("report", path, "--format", "json").stdout_bytes
    assert as_json == (stored / "report.json").read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 99}',
        '{"schema_version": 1}',
        '{"schema_version": 1, "model": 3}',
        "[" * 100_000,
    ],
)
def test_a_damaged_report_is_a_diagnostic(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    for output_format in ("text", "markdown"):
        result = _invoke("report", str(tmp_path / "report.json"), "--format", output_format)
        assert result.exit_code == 1
        assert result.stderr.startswith("error[MCM-A005]: report.json is damaged: ")
        assert result.stdout == ""


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    result = _invoke("report", str(tmp_path / "gone"))
    assert result.exit_code == 1
    assert "error[MCM-A004]: no such folder" in result.stderr
