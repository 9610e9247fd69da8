"""`mcmc place`, and the verbs that read its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from tests.generators.placed_models import small_model


def _invoke(*args: str | Path) -> Any:
    return CliRunner().invoke(cli, list(map(str, args)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("place") / "small.onnx"
    ir.save(small_model(), path)
    return path


@pytest.fixture(scope="module")
def folder(model: Path) -> Path:
    out = model.parent / "out"
    result = _invoke("place", model, "--target", "box-cpu-gpu", "--placer", "letters", "-o", out)
    assert result.exit_code == 0, result.output
    assert "wrote" in result.stderr
    return out


def test_what_is_printed_is_in_the_folder(model: Path, folder: Path) -> None:
    result = _invoke(
        "place", model, "--target", "box-cpu-gpu", "--placer", "letters", "--format", "json"
    )
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    schedule = json.loads((folder / "schedule.json").read_text())
    assert printed.pop("segments") == {
        "count": len(schedule["segments"]),
        "dispatch_s": schedule["dispatch_s"],
        "seconds": schedule["seconds"],
    }
    assert printed == json.loads((folder / "placement.json").read_text())


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        (("check",), "holds"),
        (("report", "--full"), "segments, 50.0 us to start each"),
        (("report", "--format", "markdown"), "## Segments"),
        (("simulate",), "its time is that of a chain of"),
    ],
)
def test_verbs_read_the_folder(folder: Path, verb: tuple[str, ...], words: str) -> None:
    result = _invoke(verb[0], folder, *verb[1:])
    assert result.exit_code == 0, result.output
    assert words in result.stdout


def test_verbs_have_json(folder: Path) -> None:
    report = json.loads(_invoke("report", folder, "--format", "json").stdout)
    assert report["target"] == "box-cpu-gpu"
    check = json.loads(_invoke("check", folder, "--format", "json").stdout)
    assert check["holds"]
    step = json.loads(_invoke("simulate", folder, "--format", "json").stdout)
    assert step["seconds"] == pytest.approx(report["step"]["seconds"])


def test_a_trace_is_written_and_not_written_over(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "step.pftrace"
    assert _invoke("simulate", folder, "--trace", trace).exit_code == 0
    assert trace.stat().st_size > 0
    assert "MCM-U021" in _invoke("simulate", folder, "--trace", trace).stderr


def test_folders_of_both_kinds_are_checked_beside_each_other(folder: Path) -> None:
    result = _invoke("check", folder.parent)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--target", "mcm36"), "MCM-D002"),
        (("--pin", "op_a=gpu:4"), "MCM-D070"),
        (("--pin", "nothing=cpu:0"), "MCM-D071"),
        (("--pin", "op_a=cpu:0", "--pin", "op_*=gpu:0"), "MCM-D072"),
        (("-O", "9"), "MCM-U003"),
        (("--placer", "nobody"), "MCM-U003"),
        (("--training", "--differentiate", "{nonsense=1}"), "MCM-U002"),
        (("--cost-model", "k80=cycles"), "MCM-D070"),
        (("--cost-model", "k40=nobodys"), "MCM-U003"),
        (("--cost-model", "k40=table{file=there-is-none.csv}"), "MCM-C004"),
        (("--profile", "k40=there-is-none.json"), "MCM-D077"),
    ],
)
def test_what_cannot_be_asked(model: Path, tmp_path: Path, args: Any, code: str) -> None:
    result = _invoke("place", model, "-o", tmp_path / "out", *args)
    assert result.exit_code == 1
    assert f"error[{code}]" in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_replaced_when_asked(model: Path, folder: Path) -> None:
    args = ("place", model, "--target", "box-cpu-gpu", "--placer", "letters", "-o", folder)
    assert "MCM-A001" in _invoke(*args).stderr
    assert _invoke(*args, "--force").exit_code == 0


def test_other_verbs_say_what_the_folder_is(model: Path, folder: Path) -> None:
    assert "MCM-D001" in _invoke("compile", model, "--target", "box-2gpu").stderr
    result = _invoke("check", folder, "--model", model)
    assert result.exit_code == 0
    assert "annotated.onnx is" in result.stdout
    result = _invoke("check", folder, "--model", "zoo:bert-tiny")
    assert result.exit_code == 1
    assert "MCM-V066" in result.stderr


@pytest.mark.parametrize("text", ["cycles", "table{file=times.csv}", "=cycles", "k40="])
def test_a_cost_model_is_that_of_a_kind(model: Path, text: str) -> None:
    result = _invoke("place", model, "--cost-model", text)
    assert result.exit_code == 2
    assert "'k40=table{file=times.csv}'" in result.stderr


def test_a_kind_has_one_cost_model(model: Path) -> None:
    twice = ("--cost-model", "k40=cycles", "--cost-model", "k40=roofline")
    result = _invoke("place", model, *twice)
    assert result.exit_code == 2
    assert "'k40' is given twice" in result.stderr


def _profile(path: Path, **microseconds: float) -> Path:
    events = [
        {"cat": "Node", "name": f"{op}_kernel_time", "dur": took}
        for op, took in microseconds.items()
    ]
    path.write_text(json.dumps(events))
    return path


def test_a_profile_and_a_cost_model_of_one_kind_contradict(model: Path, tmp_path: Path) -> None:
    profile = _profile(tmp_path / "run.json", op_a=3)
    args = ("--profile", f"k40={profile}", "--cost-model", "k40=cycles")
    result = _invoke("place", model, *args)
    assert result.exit_code == 1
    assert "error[MCM-U002]" in result.stderr
    assert "option --profile 'k40'" in result.stderr


def test_profiles_and_tables_of_kinds_stand_beside_each_other(
    model: Path, folder: Path, tmp_path: Path
) -> None:
    first = _profile(tmp_path / "1.json", op_a=3, op_b=1, fused=9)
    second = _profile(tmp_path / "2.json", op_a=5)
    table, out = tmp_path / "times.csv", tmp_path / "out"
    table.write_text("op_type,inputs,type,seconds\nTanh,64x128,float,7e-6\n")
    args = ("--target", "box-cpu-gpu", "--placer", "letters", "-o", out)
    args += ("--profile", f"haswell={first}", "--profile", f"haswell={second}")
    result = _invoke("place", model, *args, "--cost-model", f"k40=table{{file={table}}}")
    assert result.exit_code == 0, result.output
    assert "2 ops have times that were measured on 'haswell'" in result.stderr
    assert "1 ops have times that were measured on 'k40'" in result.stderr
    rows = (out / "cost_model.haswell.file.csv").read_text()
    assert rows == "node,seconds\nop_a,4e-06\nop_b,1e-06\n"
    assert _invoke("check", out).exit_code == 0
    found = json.loads(_invoke("diff", folder, out, "--format", "json").stdout)
    (setting,) = [one for one in found["settings"] if one["name"] == "cost models"]
    assert setting["a"] == "none"
    assert setting["b"].startswith("haswell=table{file=cost_model.haswell.file.csv,factor=")


@pytest.mark.parametrize("pin", ["op_a", "=gpu:0", "op_a="])
def test_a_pin_has_a_pattern_and_a_name(model: Path, pin: str) -> None:
    result = _invoke("place", model, "--pin", pin)
    assert result.exit_code == 2
    assert "pattern=name" in result.stderr
