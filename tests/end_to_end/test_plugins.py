"""Plug-ins through the command line: one file by `--plugin`, and an installed distribution."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.options import DEFAULT_PIPELINE

MCMC = Path(sys.executable).with_name("mcmc")
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
EXAMPLE = EXAMPLES / "count_ops.py"
COSTS = EXAMPLES / "memory_bound.py"
LAYERS = 6
WIDTH = 32


def mcmc(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [str(MCMC), *map(str, arguments)]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `model.onnx`: six times MatMul, Relu and an Identity that does nothing."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    value = "x"
    for layer in range(LAYERS):
        weight = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes += [
            helper.make_node("MatMul", [value, f"w{layer}"], [f"m{layer}"], f"matmul{layer}"),
            helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"], f"relu{layer}"),
            helper.make_node("Identity", [f"r{layer}"], [f"i{layer}"], f"identity{layer}"),
        ]
        value = f"i{layer}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, WIDTH])
    y = helper.make_tensor_value_info(value, TensorProto.FLOAT, [4, WIDTH])
    graph = helper.make_graph(nodes, "layers", [x], [y], weights)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name="test"
    )
    folder = tmp_path_factory.mktemp("plugins")
    onnx.save(model, folder / "model.onnx")
    return folder


@pytest.fixture
def acme() -> str:
    """How an installed component names its origin."""
    try:
        return f"acme-passes {importlib.metadata.version('acme-passes')}"
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("the plug-in tests/acme_passes is not installed: `make test` installs it")


def test_a_pass_in_one_file_runs_alone(folder: Path) -> None:
    done = mcmc("opt", "model.onnx", "--plugin", EXAMPLE, "--passes", "count_ops", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "note[MY-001]: 6 MatMul, 6 Relu, 6 Identity" in done.stderr


def test_a_pass_in_one_file_runs_in_the_pipeline(folder: Path) -> None:
    passes = DEFAULT_PIPELINE.replace("fuse", "count_ops{top=1},fuse", 1)
    plugin = ("--plugin", EXAMPLE, "--passes", passes)
    done = mcmc("compile", "model.onnx", *plugin, "-o", "counted", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    notes = [d for d in json.loads(done.stdout)["diagnostics"] if d["code"] == "MY-001"]
    assert [(n["severity"], n["message"]) for n in notes] == [("note", "6 MatMul")]


def test_a_plugin_that_fails_is_a_diagnostic(folder: Path) -> None:
    (folder / "broken.py").write_text("import no_such_module\n")
    done = mcmc("opt", "model.onnx", "--plugin", "broken.py", "--passes", "simplify", cwd=folder)
    assert done.returncode == 1
    assert "error[MCM-X004]" in done.stderr
    assert "no_such_module" in done.stderr


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ("passes", "acme_allow_ops"),
        ("passes", "acme_drop_identity"),
        ("strategies", "acme_even"),
        ("targets", "acme8"),
        ("costs", "acme_calibrated"),
    ],
)
def test_installed_components_are_listed_with_their_origin(
    folder: Path, acme: str, verb: str, name: str
) -> None:
    done = mcmc(verb, cwd=folder)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if name in line.split()]
    assert acme in line


def test_installed_pass_changes_the_graph(folder: Path, acme: str) -> None:
    done = mcmc("opt", "model.onnx", "--passes", "acme_drop_identity", cwd=folder)
    assert done.returncode == 0, done.stderr
    # The last Identity makes the graph output, whose name must stay.
    assert f"note[ACME-002]: {LAYERS - 1} Identity ops dropped" in done.stderr
    assert "relu5" in done.stdout
    assert "identity4" not in done.stdout


def test_installed_pass_refuses_with_its_own_diagnostic(folder: Path, acme: str) -> None:
    passes = "acme_allow_ops{allowed=MatMul;Identity}," + DEFAULT_PIPELINE
    done = mcmc("compile", "model.onnx", "--passes", passes, "-o", "refused", cwd=folder)
    assert done.returncode == 1
    assert "error[ACME-001]: 6 ops of type 'Relu' are not allowed" in done.stderr
    assert not (folder / "refused").exists()


def test_installed_strategy_and_target_compile_and_check(folder: Path, acme: str) -> None:
    options = ("--target", "acme8", "--partitioner", "acme_even{max_chips=3}", "-o", "even",
               "--replicas", "1")  # fmt: skip
    done = mcmc("compile", "model.onnx", *options, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["target"]["name"] == "acme8"
    assert report["target"]["chips"] == 8
    assert report["strategy"] == "acme_even{max_chips=3}"
    assert 1 <= report["chips_used"] <= 3
    assert report["verification"]["holds"]
    assert mcmc("check", "even", cwd=folder).returncode == 0


def test_a_cost_model_in_one_file_runs_by_name(folder: Path) -> None:
    options = ("--target", "mcm4", "--replicas", "1", "--chips", "2", "-o", "memory")
    plugin = ("--plugin", COSTS)
    model = "memory_bound{gb_per_s=1,launch_us=2}"
    command = ("compile", "model.onnx", *options, *plugin, "--cost-model", model)
    done = mcmc(*command, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["cost_model"] == "memory_bound"
    assert report["chosen_cost_model"] == {
        "model": "memory_bound{gb_per_s=1.0,launch_us=2.0}",
        "files": {},
        "coverage": None,
    }
    program = json.loads((folder / "memory" / "program.json").read_text())
    assert all(k["duration_s"] >= 2e-6 for chip in program["chips"] for k in chip["kernels"])
    assert report["lower_bound_s"] <= report["period_s"]
    for verb in ("check", "simulate", "report"):
        done = mcmc(verb, "memory", *plugin, cwd=folder)
        assert done.returncode == 0, done.stderr
        done = mcmc(verb, "memory", cwd=folder)
        assert done.returncode == 1
        assert "unknown cost model 'memory_bound'" in done.stderr
    listed = mcmc("costs", *plugin, cwd=folder)
    assert "memory_bound" in listed.stdout
    assert "options: gb_per_s=100.0, launch_us=0.5" in listed.stdout


def test_a_cost_model_of_one_file_refuses_its_options(folder: Path) -> None:
    model = ("--plugin", COSTS, "--cost-model", "memory_bound{gb_per_s=0}")
    done = mcmc("opt", "model.onnx", "--passes", "annotate_cost", *model, cwd=folder)
    assert done.returncode == 1
    assert "error[MCM-U002]" in done.stderr
    assert "gb_per_s has to be positive" in done.stderr


def test_installed_cost_model_keeps_its_file_in_the_output_folder(folder: Path, acme: str) -> None:
    (folder / "factors.json").write_text('{"MatMul": 3.0}')
    model = "acme_calibrated{file=factors.json}"
    options = ("--target", "acme8", "--chips", "2", "--replicas", "1", "-o", "calibrated")
    done = mcmc(
        "compile", "model.onnx", *options, "--cost-model", model, "--format", "json", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cost_model"] == "acme_calibrated"
    (folder / "factors.json").unlink()
    assert (folder / "calibrated" / "cost_model.file.json").is_file()
    assert mcmc("check", "calibrated", cwd=folder).returncode == 0


def test_installed_cost_model_refuses_with_its_own_diagnostic(folder: Path, acme: str) -> None:
    (folder / "none.json").write_text('{"MatMul": -1}')
    model = "acme_calibrated{file=none.json}"
    done = mcmc("compile", "model.onnx", "--cost-model", model, "-o", "none", cwd=folder)
    assert done.returncode == 1
    assert "error[ACME-010]" in done.stderr
    assert "none.json" in done.stderr
    assert not (folder / "none").exists()


def test_a_planner_takes_the_cost_model_too(folder: Path) -> None:
    plan = ("parallelize", "model.onnx", "--target", "mcm4", "--search", "exact", "--operator", "1")
    slow = ("--plugin", COSTS, "--cost-model", "memory_bound{gb_per_s=0.001}")
    seconds: list[float] = []
    for more in ((), slow):
        done = mcmc(*plan, *more, "--format", "json", cwd=folder)
        assert done.returncode == 0, done.stderr
        seconds.append(min(e["seconds"] for e in json.loads(done.stdout)["estimates"]))
    assert seconds[1] > 100 * seconds[0]
