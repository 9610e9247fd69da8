"""`mcmc place` from a model to a checked folder, in processes of its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx

from tests.end_to_end.conftest import Mcmc


def _loss_model(path: Path) -> None:
    """A batch of 4 through two products with a bias; the loss is a mean square."""
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> net (float[4,8] x, float[4,2] t) '
        "=> (float loss) { h = MatMul(x, u) r = Relu(h) o = MatMul(r, v) d = Sub(o, t)"
        " s = Mul(d, d) loss = ReduceMean<keepdims = 0>(s) }"
    )
    rng = np.random.default_rng(0)
    for name, shape in (("u", (8, 16)), ("v", (16, 2))):
        weight = rng.standard_normal(shape, dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    for node in proto.graph.node:
        node.name = f"net/{node.output[0]}"
    onnx.save(proto, path)


def test_a_training_step_is_placed_and_its_folder_holds(mcmc: Mcmc, tmp_path: Path) -> None:
    model, out = tmp_path / "net.onnx", tmp_path / "out"
    _loss_model(model)
    args = (
        "--target",
        "box-2gpu",
        "--placer",
        "local_search",
        "--pin",
        "net/o=gpu:1",
        "--evaluations",
        50,
    )
    done = mcmc("place", model, "--training", *args, "-o", out)
    assert done.returncode == 0, done.stderr
    record = json.loads((out / "placement.json").read_text())
    assert record["device_of"]["net/o"] == "gpu:1"
    assert record["step"]["seconds"] >= record["step"]["bound_s"] > 0
    assert {pair["past"] for pair in record["model"]["states"]} >= {"u", "v"}
    checked = mcmc("check", out)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "bit-identical" in checked.stdout


def test_measured_times_are_stored_checked_and_given_again(mcmc: Mcmc, tmp_path: Path) -> None:
    model, out, again = tmp_path / "net.onnx", tmp_path / "out", tmp_path / "again"
    _loss_model(model)
    events = [{"cat": "Node", "name": "net/o_kernel_time", "dur": took} for took in (900, 700, 800)]
    (tmp_path / "run.json").write_text(json.dumps(events))
    args = ("--target", "box-cpu-gpu", "--placer", "cpu")
    done = mcmc("place", model, *args, "--profile", "haswell=run.json", "-o", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "MCM-D079" in done.stderr
    step_s = json.loads((out / "placement.json").read_text())["step"]["seconds"]
    assert 8e-4 < step_s < 9e-3
    table = out / "cost_model.haswell.file.csv"
    assert mcmc("check", out).returncode == 0
    simulated = mcmc("simulate", out, "--format", "json")
    assert json.loads(simulated.stdout)["seconds"] == step_s

    given = f"haswell=table{{file={table}}}"
    done = mcmc("place", model, *args, "--cost-model", given, "-o", again)
    assert done.returncode == 0, done.stderr
    for path in out.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name

    table.write_text(table.read_text() + "net/r,1\n")
    checked = mcmc("check", out)
    assert checked.returncode == 1
    assert "MCM-A008" in checked.stderr


def test_a_changed_folder_does_not_hold(mcmc: Mcmc, tmp_path: Path) -> None:
    model, out = tmp_path / "net.onnx", tmp_path / "out"
    _loss_model(model)
    args = ("--target", "box-cpu-gpu", "--placer", "single", "-o", out)
    assert mcmc("place", model, *args).returncode == 0
    (out / "onnxruntime.json").write_text("{}")
    done = mcmc("check", out)
    assert done.returncode == 1
    assert "MCM-A008" in done.stderr
