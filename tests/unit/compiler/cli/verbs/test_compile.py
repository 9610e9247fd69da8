"""`mcmc compile` and `mcmc opt`: how the command line becomes a call of the API."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler import api
from mcm_compiler.cli.main import cli
from mcm_compiler.cli.verbs.compile import default_folder
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.registry import PASSES
from mcm_compiler.report.report_data import build_report
from mcm_compiler.report.terminal import plain_text, report_view
from mcm_compiler.text import json_text
from tests.generators.example_result import example_model, example_result

Calls = list[dict[str, Any]]

FIRST_SCREEN = plain_text(report_view(build_report(example_result()), full=False))


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
from mcm_compiler.pipeline.passes import Pass
from mcm_compiler.registry import register

@register("pass")
@dataclass(frozen=True)
class Mine(Pass):
    name: ClassVar[str] = "test_cli_mine"
    summary: ClassVar[str] = "a pass of my own"
    size: int = 4

    def run(self, model, context):
        pass
"""


@pytest.fixture(autouse=True)
def _not_on_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def _invoke(*args: str, **extra: Any) -> Any:
    return CliRunner().invoke(cli, list(args), **extra)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Stands in for `compile_model` and `run_passes`, and notes how they are called."""
    noted: Calls = []

    def compile_model(model: Any, target: Any, options: CompileOptions, **rest: Any) -> Any:
        noted.append({"model": model, "target": target, "options": options, **rest})
        return example_result(rest["output"])

    def run_passes(model: Any, target: Any, options: CompileOptions, **rest: Any) -> Any:
        noted.append({"model": model, "target": target, "options": options, **rest})
        warning = Diagnostic("MCM-P010", "odd", severity=Severity.WARNING)
        return example_model(), (warning,), (("import", 0.5),)

    monkeypatch.setattr(api, "compile_model", compile_model)
    monkeypatch.setattr(api, "run_passes", run_passes)
    return noted


@pytest.fixture
def plugin(tmp_path: Path) -> Generator[Path]:
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    yield path
    PASSES.remove("test_cli_mine")


@pytest.mark.parametrize(
    ("model", "target", "folder"),
    [
        ("models/resnet50.onnx", "mcm36", "resnet50.mcm36"),
        ("net.v2.onnx", "mcm4", "net.v2.mcm4"),
        ("zoo:bert{layers=4}", "mcm36", "bert.mcm36"),
        ("zoo:resnet50", "./targets/mine.toml", "resnet50.mine"),
    ],
)
def test_the_default_folder_is_here(model: str, target: str, folder: str) -> None:
    assert default_folder(model, target) == Path(folder)


def test_defaults(calls: Calls) -> None:
    result = _invoke("compile", "net.onnx")
    assert result.exit_code == 0, result.output
    (call,) = calls
    assert call["model"] == "net.onnx"
    assert call["target"] == "mcm36"
    assert call["options"] == CompileOptions()
    assert call["options"].passes == DEFAULT_PIPELINE
    assert call["output"] == Path("net.mcm36")
    assert call["force"] is False
    assert call["after_pass"] is None
    assert call["progress"] is None  # stderr is not a terminal here


def test_every_option_reaches_the_compiler(calls: Calls) -> None:
    result = _invoke(
        *("compile", "zoo:bert", "--target", "mcm4", "-o", "out", "--force"),
        *("--passes", "simplify,fuse", "--partitioner", "dp{orders=2}", "--routing", "strict"),
        *("-O3", "--seed", "7", "--dim", "batch=2", "--dim", "seq=128", "--shape", "ids=1,128"),
        *("--samples", "99", "--budget", "2m", "--inferences", "16", "--verify-seeds", "3"),
    )
    assert result.exit_code == 0, result.output
    (call,) = calls
    assert (call["target"], call["output"], call["force"]) == ("mcm4", Path("out"), True)
    assert call["options"] == CompileOptions(
        passes="simplify,fuse",
        level=3,
        partitioner="dp{orders=2}",
        routing="strict",
        seed=7,
        dims={"batch": 2, "seq": 128},
        shapes={"ids": (1, 128)},
        samples=99,
        budget_s=120.0,
        inferences=16,
        verify_seeds=3,
    )


def test_the_report_goes_to_stdout_and_the_rest_to_stderr(calls: Calls) -> None:
    result = _invoke("compile", "net.onnx", "--timings")
    assert result.stdout == FIRST_SCREEN
    assert result.stderr.splitlines() == [
        "warning[MCM-P020]: op 'Odd' is not modelled",
        "import       0.500 s",
        "simplify     0.250 s",
        "total        0.750 s",
        "wrote net.mcm36",
        "full report: mcmc report net.mcm36 --full",
    ]


def test_json_is_the_bytes_of_the_stored_report(calls: Calls) -> None:
    result = _invoke("compile", "net.onnx", "--format", "json")
    expected = json_text.dump(build_report(example_result()))
    assert result.stdout_bytes == expected.encode("utf-8")


@pytest.mark.parametrize(
    "args",
    [
        ["--dim", "batch"],
        ["--dim", "batch=1", "--dim", "batch=2"],
        ["--shape", "ids=1,x"],
        ["--budget", "soon"],
        ["--seed", "-1"],
        ["--samples", "0"],
        ["--routing", "loose"],
        ["--format", "xml"],
        ["--print-after", "fuse", "--passes", "simplify"],
    ],
)
def test_malformed_options_are_wrong_usage(calls: Calls, args: list[str]) -> None:
    result = _invoke("compile", "net.onnx", *args)
    assert result.exit_code == 2
    assert "Usage: mcmc compile" in result.stderr
    assert calls == []


def test_a_diagnosed_failure(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_rest: Any) -> Any:
        raise CompileError(Diagnostic("MCM-I001", "no such file"))

    monkeypatch.setattr(api, "compile_model", fail)
    result = _invoke("compile", "net.onnx", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["diagnostics"][0]["code"] == "MCM-I001"


def test_a_failure_reaches_github_and_junit(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_args: Any, **_rest: Any) -> Any:
        raise CompileError(Diagnostic("MCM-I001", "no such file"))

    monkeypatch.setattr(api, "compile_model", fail)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    junit = tmp_path / "new" / "junit.xml"
    result = _invoke("compile", "net.onnx", "--junit", str(junit))
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert "::error file=net.onnx,title=MCM-I001 net.onnx::no such file" in lines
    assert "error[MCM-I001]: no such file" in lines
    assert ET.parse(junit).find("testsuite/testcase/failure").get("type") == "MCM-I001"
    assert [path.name for path in junit.parent.iterdir()] == ["junit.xml"]


def _baseline(path: Path, throughput_per_s: float) -> str:
    report = build_report(example_result())
    report |= {"throughput_per_s": throughput_per_s, "period_s": 1.0 / throughput_per_s}
    json_text.write(path, report)
    return str(path)


def test_a_slower_model_fails_after_its_report(calls: Calls, tmp_path: Path) -> None:
    baseline = _baseline(tmp_path / "report.json", 9000.0)
    result = _invoke("compile", "net.onnx", "--baseline", baseline)
    assert result.exit_code == 1
    assert result.stdout == FIRST_SCREEN
    assert "wrote net.mcm36" in result.stderr
    assert "error[MCM-U031]: throughput fell by 11.1 %" in result.stderr
    assert f"  at: net.onnx, compared with {baseline}" in result.stderr
    assert _invoke("compile", "net.onnx", "--baseline", str(tmp_path)).exit_code == 1
    allowed = _invoke("compile", "net.onnx", "--baseline", baseline, "--max-regression", "12%")
    assert allowed.exit_code == 0
    assert "throughput -11.1 % against the baseline" in allowed.stderr


def test_a_faster_model_and_a_new_one_pass(calls: Calls, tmp_path: Path) -> None:
    faster = _invoke("compile", "n.onnx", "--baseline", _baseline(tmp_path / "r.json", 4000.0))
    assert faster.exit_code == 0
    assert "note[MCM-U033]: throughput rose by 100.0 %" in faster.stderr
    new = _invoke("compile", "n.onnx", "--baseline", str(tmp_path))
    assert new.exit_code == 0
    assert "note[MCM-U035]" in new.stderr


def test_a_damaged_baseline_fails_but_the_compile_is_kept(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{")
    result = _invoke("compile", "net.onnx", "--baseline", str(tmp_path))
    assert result.exit_code == 1
    assert "wrote net.mcm36" in result.stderr
    assert "error[MCM-U030]" in result.stderr


def test_a_missing_baseline_stops_before_the_compile(calls: Calls, tmp_path: Path) -> None:
    result = _invoke("compile", "net.onnx", "--baseline", str(tmp_path / "gone.json"))
    assert result.exit_code == 1
    assert "error[MCM-U030]" in result.stderr
    assert calls == []


def test_a_limit_without_a_baseline_is_wrong_usage(calls: Calls) -> None:
    assert _invoke("compile", "net.onnx", "--max-regression", "3%").exit_code == 2
    assert calls == []


def test_print_after_prints_the_model_to_stderr(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcm_passes.pipeline.preparing import Simplify

    _invoke("compile", "net.onnx", "--print-after", "simplify")
    hook: Callable[..., None] = calls[0]["after_pass"]
    printed: list[str] = []
    monkeypatch.setattr("click.echo", lambda text, **_rest: printed.append(text))
    hook(Simplify(), example_model())
    assert printed[0] == "// after simplify"
    assert "MatMul" in printed[1]
    printed.clear()

    class Other:
        name = "fuse"

    hook(Other(), example_model())
    assert printed == []


def test_print_after_all(calls: Calls) -> None:
    assert _invoke("compile", "net.onnx", "--print-after", "all").exit_code == 0
    assert calls[0]["after_pass"] is not None


def test_plugins_are_loaded_before_the_compile(calls: Calls, plugin: Path) -> None:
    args = ("--plugin", str(plugin), "--passes", "test_cli_mine,simplify")
    assert _invoke("compile", "net.onnx", *args).exit_code == 0
    assert PASSES.get("test_cli_mine").summary == "a pass of my own"
    listing = json.loads(_invoke("passes", "--format", "json").stdout)["passes"]
    mine = next(row for row in listing if row["name"] == "test_cli_mine")
    assert mine["options"] == [{"name": "size", "type": "int", "default": "4"}]
    assert mine["origin"] == str(plugin)


def test_a_plugin_that_does_not_exist(calls: Calls) -> None:
    result = _invoke("compile", "net.onnx", "--plugin", "gone.py")
    assert result.exit_code == 1
    assert "error[MCM-X004]" in result.stderr
    assert calls == []


def test_opt_prints_the_model(calls: Calls) -> None:
    result = _invoke("opt", "net.onnx", "--passes", "simplify", "--timings")
    assert result.exit_code == 0
    assert calls[0]["options"].passes == "simplify"
    assert "= MatMul(x, w) @fc" in result.stdout
    assert "warning[MCM-P010]: odd" in result.stderr
    assert "0.500 s" in result.stderr


def test_opt_as_json(calls: Calls) -> None:
    data = json.loads(_invoke("opt", "net.onnx", "--passes", "simplify", "--format", "json").stdout)
    assert data["passes"] == "simplify"
    assert "MatMul" in data["model"]
    assert data["diagnostics"][0]["severity"] == "warning"


def test_opt_writes_a_file_and_replaces_none(calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "out.onnx"
    args = ("opt", "net.onnx", "--passes", "simplify", "-o", str(path))
    assert _invoke(*args).exit_code == 0
    first = path.read_bytes()
    assert first
    result = _invoke(*args)
    assert result.exit_code == 1
    assert "error[MCM-U021]" in result.stderr
    assert len(calls) == 1
    assert _invoke(*args, "--force").exit_code == 0
    assert path.read_bytes() == first


def test_opt_into_a_folder_that_does_not_exist(calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "gone" / "out.onnx"
    result = _invoke("opt", "net.onnx", "--passes", "simplify", "-o", str(path))
    assert result.exit_code == 1
    assert "error[MCM-A002]" in result.stderr
