"""Many models in one command: outputs, JUnit, a baseline, other processes, an interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.cli.main import cli

WIDTH = 8
COUNT = 15


def write_mlp(path, width=WIDTH, layers=3, seed=0):
    """x[1,8] -> layers of MatMul, the middle one `width` wide -> y."""
    rng = np.random.default_rng(seed)
    nodes, weights, value, size = [], [], "x", WIDTH
    for layer in range(layers):
        wide = width if layer == layers // 2 else WIDTH
        array = rng.standard_normal((size, wide), dtype=np.float32)
        weights.append(numpy_helper.from_array(array, f"w{layer}"))
        nodes.append(
            helper.make_node("MatMul", [value, f"w{layer}"], [f"h{layer}"], name=f"fc{layer}")
        )
        value, size = f"h{layer}", wide
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDTH])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_here(*arguments):
    target = ("--target", "mcm4", "--replicas", "1")
    return CliRunner().invoke(cli, ["compile", *map(str, arguments), *target])


def start(*arguments, cwd):
    command = [sys.executable, "-m", "mcm_compiler", "compile", *map(str, arguments)]
    return subprocess.Popen(
        [*command, "--target", "mcm4", "--replicas", "1"],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def models(workspace, monkeypatch):
    monkeypatch.chdir(workspace)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return workspace / "models"


def test_a_folder_of_many_models_with_junit_and_baseline(models):
    for number in range(COUNT):
        write_mlp(models / "abc"[number % 3] / f"net{number:02d}.onnx", seed=number)
    first = run_here("models", "-o", "old", "--junit", "junit.xml")
    assert first.exit_code == 0, first.output
    *lines, summary = first.stdout.splitlines()
    assert len(lines) == COUNT
    assert all(line.startswith("ok      models/") for line in lines)
    assert summary == f"{COUNT} models: {COUNT} ok, 0 failed"
    reports = sorted(models.parent.glob("old/*/*/report.json"))
    assert len(reports) == COUNT
    suite = ET.parse("junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == (str(COUNT), "0")

    write_mlp(models / "b" / "net10.onnx", width=8192, seed=10)
    (models / "a" / "net12.onnx").write_bytes(b"damaged")
    second = run_here(
        *("models", "-o", "new", "--junit", "junit.xml"),
        *("--baseline", "old", "--max-regression", "3%"),
    )
    assert second.exit_code == 1
    failed = [line for line in second.stdout.splitlines() if line.startswith("FAILED")]
    assert [line.split()[1] for line in failed] == ["models/a/net12.onnx", "models/b/net10.onnx"]
    assert second.stdout.endswith(
        f"{COUNT} models: {COUNT - 2} ok, 2 failed, 1 of them slower than the baseline\n"
    )
    failures = {
        case.get("name"): case.find("failure")
        for case in ET.parse("junit.xml").getroot()[0]
        if case.find("failure") is not None
    }
    assert sorted(failures) == ["models/a/net12.onnx", "models/b/net10.onnx"]
    slower = failures["models/b/net10.onnx"]
    assert slower.get("type") == "MCM-U031"
    assert "throughput fell by " in slower.get("message")
    assert "'fc1' on chip" in slower.get("message")
    assert "the model changed: it has 3 ops and 512.2 KiB of weights" in slower.text
    # The slower model is written all the same; the damaged one leaves nothing.
    assert (models.parent / "new" / "b" / "net10" / "manifest.json").is_file()
    assert not (models.parent / "new" / "a" / "net12").exists()


def test_a_slower_single_model_names_the_op(models):
    write_mlp(models / "net.onnx")
    assert run_here("models/net.onnx", "-o", "net").exit_code == 0
    write_mlp(models / "net.onnx", width=8192)
    again = run_here(
        *("models/net.onnx", "-o", "net", "--force"),
        *("--baseline", "net/report.json", "--max-regression", "3%"),
    )
    assert again.exit_code == 1
    assert "error[MCM-U031]" in again.stderr
    assert "'fc1' on chip" in again.stderr
    report = json.loads((models.parent / "net" / "report.json").read_text())
    assert report["model"]["weight_bytes"] > 500_000


def test_an_option_that_slows_down_is_named(models):
    for number in range(2):
        write_mlp(models / f"net{number}.onnx", width=8192, seed=number)
    assert run_here("models", "-o", "old").exit_code == 0
    done = run_here("models", "-o", "new", "--baseline", "old", "--chips", "1")
    assert done.exit_code == 1
    assert done.stderr.count("error[MCM-U031]") == 2
    assert "allowed: option chips is '1', 'none' before" in done.stderr


def test_other_processes_give_the_same_bytes_and_lines(models):
    for number in range(4):
        write_mlp(models / f"net{number}.onnx", seed=number)
    (models / "broken.onnx").write_bytes(b"damaged")
    here = run_here("models", "-o", "one")
    there = start("models", "-o", "two", "--jobs", "2", cwd=models.parent)
    stdout, stderr = there.communicate(timeout=120)
    assert there.returncode == here.exit_code == 1, stderr
    assert stdout == here.stdout
    assert contents(models.parent / "one") == contents(models.parent / "two")


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_leaves_whole_folders_only(models, wait_for_chips, jobs):
    write_mlp(models / "a.onnx")
    process = start(
        *("zoo:bert-base", "zoo:gpt2{layers=2}", "models/a.onnx", "-o", "out"),
        *("--junit", "junit.xml", "--jobs", jobs),
        cwd=models.parent,
    )
    out = models.parent / "out"
    wait_for_chips(out)
    # As a terminal does: to the whole group, whatever the processes are doing.
    os.killpg(process.pid, signal.SIGINT)
    _stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    left = sorted(path.name for path in out.iterdir()) if out.exists() else []
    assert all((out / name / "manifest.json").is_file() for name in left)
    assert len(left) < 3
    # Where nothing was written, the folder for it is gone again.
    there = ["models", "out"] if left else ["models"]
    assert sorted(path.name for path in models.parent.iterdir()) == there
