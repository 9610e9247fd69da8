"""Plug-ins through the command line: one file by `--plugin`, and an installed distribution."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.options import DEFAULT_PIPELINE
from tests.end_to_end.conftest import Mcmc

EXAMPLES = Path(__file__).parents[2] / "docs" / "how-to" / "examples"
EXAMPLE = EXAMPLES / "count_ops.py"
COSTS = EXAMPLES / "memory_bound.py"
ACME = Path(__file__).parents[1] / "acme_passes" / "acme_passes"
LAYERS = 6
WIDTH = 32


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


def test_a_pass_in_one_file_runs_alone(mcmc: Mcmc, folder: Path) -> None:
    done = mcmc("opt", "model.onnx", "--plugin", EXAMPLE, "--passes", "count_ops", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "note[MY-001]: 6 MatMul, 6 Relu, 6 Identity" in done.stderr


def test_a_pass_in_one_file_runs_in_the_pipeline(mcmc: Mcmc, folder: Path) -> None:
    passes = DEFAULT_PIPELINE.replace("fuse", "count_ops{top=1},fuse", 1)
    plugin = ("--plugin", EXAMPLE, "--passes", passes)
    done = mcmc("compile", "model.onnx", *plugin, "-o", "counted", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    notes = [d for d in json.loads(done.stdout)["diagnostics"] if d["code"] == "MY-001"]
    assert [(n["severity"], n["message"]) for n in notes] == [("note", "6 MatMul")]


def test_a_plugin_that_fails_is_a_diagnostic(mcmc: Mcmc, folder: Path) -> None:
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
    mcmc: Mcmc, folder: Path, acme: str, verb: str, name: str
) -> None:
    done = mcmc(verb, cwd=folder)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if name in line.split()]
    assert acme in line


def test_installed_pass_changes_the_graph(mcmc: Mcmc, folder: Path, acme: str) -> None:
    done = mcmc("opt", "model.onnx", "--passes", "acme_drop_identity", cwd=folder)
    assert done.returncode == 0, done.stderr
    # The last Identity makes the graph output, whose name must stay.
    assert f"note[ACME-002]: {LAYERS - 1} Identity ops dropped" in done.stderr
    assert "relu5" in done.stdout
    assert "identity4" not in done.stdout


def test_installed_pass_refuses_with_its_own_diagnostic(
    mcmc: Mcmc, folder: Path, acme: str
) -> None:
    passes = "acme_allow_ops{allowed=MatMul;Identity}," + DEFAULT_PIPELINE
    done = mcmc("compile", "model.onnx", "--passes", passes, "-o", "refused", cwd=folder)
    assert done.returncode == 1
    assert "error[ACME-001]: 6 ops of type 'Relu' are not allowed" in done.stderr
    assert not (folder / "refused").exists()


def test_installed_strategy_and_target_compile_and_check(
    mcmc: Mcmc, folder: Path, acme: str
) -> None:
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


def test_a_cost_model_in_one_file_runs_by_name(mcmc: Mcmc, folder: Path) -> None:
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


def test_a_cost_model_of_one_file_refuses_its_options(mcmc: Mcmc, folder: Path) -> None:
    model = ("--plugin", COSTS, "--cost-model", "memory_bound{gb_per_s=0}")
    done = mcmc("opt", "model.onnx", "--passes", "annotate_cost", *model, cwd=folder)
    assert done.returncode == 1
    assert "error[MCM-U002]" in done.stderr
    assert "gb_per_s has to be positive" in done.stderr


def test_installed_cost_model_keeps_its_file_in_the_output_folder(
    mcmc: Mcmc, folder: Path, acme: str
) -> None:
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


def test_installed_cost_model_refuses_with_its_own_diagnostic(
    mcmc: Mcmc, folder: Path, acme: str
) -> None:
    (folder / "none.json").write_text('{"MatMul": -1}')
    model = "acme_calibrated{file=none.json}"
    done = mcmc("compile", "model.onnx", "--cost-model", model, "-o", "none", cwd=folder)
    assert done.returncode == 1
    assert "error[ACME-010]" in done.stderr
    assert "none.json" in done.stderr
    assert not (folder / "none").exists()


def test_a_planner_takes_the_cost_model_too(mcmc: Mcmc, folder: Path) -> None:
    plan = ("parallelize", "model.onnx", "--target", "mcm4", "--planner", "auto-map",
            "--operator", "1")  # fmt: skip
    slow = ("--plugin", COSTS, "--cost-model", "memory_bound{gb_per_s=0.001}")
    seconds: list[float] = []
    for more in ((), slow):
        done = mcmc(*plan, *more, "--format", "json", cwd=folder)
        assert done.returncode == 0, done.stderr
        estimates = json.loads(done.stdout)["estimates"]
        seconds.append(min(e["seconds"] for e in estimates if e["seconds"] is not None))
    assert seconds[1] > 100 * seconds[0]


@pytest.fixture
def mine(folder: Path) -> dict[str, Path]:
    """The strategy and the planner of the distribution as files of another name."""
    files: dict[str, Path] = {}
    for stem in ("even", "largest"):
        text = (ACME / f"{stem}.py").read_text(encoding="utf-8")
        files[stem] = folder / f"my_{stem}.py"
        files[stem].write_text(text.replace("acme_", "my_"), encoding="utf-8")
    return files


def test_a_strategy_in_one_file_compiles_and_checks(
    mcmc: Mcmc, folder: Path, mine: dict[str, Path]
) -> None:
    plugin = ("--plugin", mine["even"])
    listed = mcmc("strategies", *plugin, "--format", "json", cwd=folder)
    rows = {row["name"]: row for row in json.loads(listed.stdout)["strategies"]}
    assert rows["my_even"]["origin"] == str(mine["even"])
    options = ("--target", "mcm4", *plugin, "--partitioner", "my_even{max_chips=2}",
               "--replicas", "1", "-o", "my_even_out", "--format", "json")  # fmt: skip
    done = mcmc("compile", "model.onnx", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["strategy"] == "my_even{max_chips=2}"
    assert report["chips_used"] <= 2
    # What was found is proven without what found it.
    assert mcmc("check", "my_even_out", cwd=folder).returncode == 0


def test_a_strategy_in_one_file_is_a_member_of_a_portfolio(
    mcmc: Mcmc, folder: Path, mine: dict[str, Path]
) -> None:
    options = ("--target", "mcm4", "--plugin", mine["even"], "--replicas", "1",
               "--partitioner", 'portfolio{members="my_even;dp"}',
               "-o", "in_portfolio", "--format", "json")  # fmt: skip
    done = mcmc("compile", "model.onnx", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["strategy"] == "portfolio{members=my_even;dp}"


@pytest.mark.parametrize("installed", [False, True])
def test_a_planner_plans_and_its_plan_compiles(
    mcmc: Mcmc, folder: Path, mine: dict[str, Path], acme: str, installed: bool
) -> None:
    name = "acme_largest" if installed else "my_largest"
    plugin = () if installed else ("--plugin", mine["largest"])
    asked = ("--target", "mcm4", "--planner", f"{name}{{dim=0}}", *plugin)
    plan, out, at_once = (f"{name}{end}" for end in (".json", "_out", "_at_once"))
    done = mcmc("parallelize", "model.onnx", *asked, "-o", plan, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["degrees"] == {"data": 1, "operator": 2, "pipeline": 1}
    assert shown["variables"] == {"w0": {"dim": 0}}
    options = ("--target", "mcm4", "--partitioner", "dp")
    assert mcmc("compile", "model.onnx", *options, "--plan", plan, "-o", out, cwd=folder
                ).returncode == 0  # fmt: skip
    # The planner of a compile is the one of the plan.
    done = mcmc("compile", "model.onnx", *asked, "--partitioner", "dp", "-o", at_once, cwd=folder)
    assert done.returncode == 0, done.stderr
    chips = sorted(path.name for path in (folder / out).glob("chip_*"))
    assert len(chips) >= 2
    for chip in chips:
        assert (folder / out / chip).read_bytes() == (folder / at_once / chip).read_bytes()
    assert mcmc("check", at_once, cwd=folder).returncode == 0


def test_a_planner_refuses_with_its_own_diagnostic(
    mcmc: Mcmc, folder: Path, mine: dict[str, Path]
) -> None:
    asked = ("--target", "mcm4", "--planner", "my_largest", "--plugin", mine["largest"])
    done = mcmc("parallelize", "model.onnx", *asked, "--training", cwd=folder)
    assert done.returncode == 1
    assert "error[ACME-003]: acme_largest plans no training" in done.stderr.replace("my_", "acme_")


def test_a_file_that_is_installed_as_well_is_told_with_both_origins(
    mcmc: Mcmc, folder: Path, acme: str
) -> None:
    done = mcmc("strategies", "--plugin", ACME / "even.py", cwd=folder)
    assert done.returncode == 1
    assert "error[MCM-X001]" in done.stderr
    assert f"at: {acme} and {ACME / 'even.py'}" in done.stderr


FAMILY = """
from mcm_compiler import register
from mcm_compiler.registry import TARGET_FAMILIES, TARGETS


class MyRing:
    def __init__(self, name, text):
        self.source_text = text
        self._ring = TARGET_FAMILIES.get("ring")(name, text.replace('"my_packages"', '"ring"'))

    def __getattr__(self, name):
        return getattr(self._ring, name)


register("target-family", "my_packages")(MyRing)


@register("target", "my_mcm4")
def my_mcm4():
    return MyRing("my_mcm4", TARGETS.get("mcm4")().source_text.replace('"ring"', '"my_packages"'))
"""


def test_a_family_in_one_file_is_known_to_every_verb(mcmc: Mcmc, folder: Path) -> None:
    (folder / "family.py").write_text(FAMILY)
    plugin = ("--plugin", "family.py")
    done = mcmc("targets", *plugin, cwd=folder)
    assert "my_mcm4" in done.stdout
    done = mcmc("targets", "show", *plugin, "my_mcm4", "--toml", cwd=folder)
    assert 'family = "my_packages"' in done.stdout
    (folder / "my.toml").write_text(done.stdout)
    assert mcmc("targets", "validate", *plugin, "my.toml", cwd=folder).returncode == 0
    options = (*plugin, "--target", "my_mcm4", "-O1", "-o", "family_out")
    done = mcmc("compile", "model.onnx", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    for verb in ("check", "simulate", "report"):
        done = mcmc(verb, *plugin, "family_out", cwd=folder)
        assert done.returncode == 0, done.stderr
    done = mcmc("check", "family_out", cwd=folder)
    assert done.returncode == 1
    assert "unknown target family 'my_packages'" in done.stderr
    assert "--plugin" in done.stderr
