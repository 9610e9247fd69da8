"""Plans: made, shown, explained, put to work, and refused where they do not fit."""

from __future__ import annotations

import itertools
import json

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

from mcm_compiler.checking.check import check_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.options import DEFAULT_PIPELINE

MODEL = "zoo:gpt2-tiny"
EXACT = ("--planner", "auto-map")


def mcmc(*arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A plan that divides ops over two chips, made without learning."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    asked = ("--target", "mcm4", "--operator", "2", *EXACT)
    result = mcmc(
        "parallelize", MODEL, *asked, "--objective", "paper-count", "-o", path, "--format", "json"
    )
    assert result.exit_code == 0, result.output
    return path, json.loads(result.stdout)


def changed(plan, tmp_path, **variables):
    """The plan with other dimensions for some variables."""
    data = json.loads(plan[0].read_text())
    for name, dim in variables.items():
        data["variables"][name.replace("__", ".")]["dim"] = dim
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(data))
    return path


def test_a_plan_names_every_variable(plan):
    path, shown = plan
    assert json.loads(path.read_text())["variables"] == shown["variables"]
    dims = {name: entry["dim"] for name, entry in shown["variables"].items()}
    assert dims["transformer.h.0.attn.c_attn.weight"] == 1
    assert dims["transformer.h.0.attn.c_attn.bias"] == 0
    assert dims["transformer.h.0.attn.c_proj.weight"] == 0
    assert dims["transformer.h.0.attn.c_proj.bias"] == -1
    assert dims["transformer.h.0.mlp.c_fc.weight"] == 1
    assert dims["transformer.h.0.mlp.c_proj.weight"] == 0
    assert dims["transformer.h.0.ln_1.weight"] == -1
    assert shown["degrees"]["operator"] == 2


def test_a_plan_is_compiled_and_proven(plan, workspace):
    folder = workspace / "out"
    result = mcmc("compile", MODEL, "--target", "mcm4", "--plan", plan[0], "-o", folder)
    assert result.exit_code == 0, result.output
    report = json.loads((folder / "report.json").read_text())
    assert {o["node"] for o in report["sharded_operators"]} >= {"/transformer/h.0/mlp/c_fc/Gemm"}
    assert check_folder(folder, seeds=(0, 1)).holds
    annotated = onnx.load(folder / "annotated.onnx", load_external_data=False)
    specs = [
        spec
        for node in annotated.graph.node
        for configuration in node.device_configurations
        for spec in configuration.sharding_spec
    ]
    assert {s.tensor_name for s in specs} >= {"transformer.h.0.mlp.c_fc.weight"}


def test_the_sharded_and_the_annotated_model_are_files_of_their_own(plan, workspace):
    sharded, annotated = workspace / "sharded.onnx", workspace / "annotated.onnx"
    original = workspace / "model.onnx"
    assert mcmc("zoo", MODEL.removeprefix("zoo:"), "-o", original).exit_code == 0
    result = mcmc(
        "parallelize", MODEL, "--target", "mcm4", "--plan", plan[0],
        "--sharded", sharded, "--annotated", annotated,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    onnx.checker.check_model(str(annotated))
    specs = {
        spec.tensor_name: [
            [(one.dim_value, one.num_shards) for one in dim.simple_sharding]
            for dim in spec.sharded_dim
        ]
        for node in onnx.load(annotated, load_external_data=False).graph.node
        for configuration in node.device_configurations
        for spec in configuration.sharding_spec
    }
    assert specs["transformer.h.0.attn.c_attn.weight"] == [[(3, 1), (128, 2)]]
    assert specs["transformer.h.0.attn.c_proj.weight"] == [[(128, 2)]]
    outputs = []
    for path in (original, sharded):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feeds = {i.name: np.ones(i.shape, np.int64) for i in session.get_inputs()}
        outputs.append(session.run(None, feeds)[0])
    assert np.abs(outputs[0] - outputs[1]).max() <= 1e-5 * np.abs(outputs[0]).max()


def test_mcm_s021_a_plan_for_another_model(plan):
    result = mcmc("opt", "zoo:bert-tiny", "--passes", f'apply_plan{{file="{plan[0]}"}}')
    assert result.exit_code == 1
    assert "MCM-S021" in result.stderr


def test_mcm_s066_a_plan_for_another_package(plan):
    asked = ("opt", MODEL, "--passes", f'apply_plan{{file="{plan[0]}"}}')
    result = mcmc(*asked, "--target", "mcm16")
    assert result.exit_code == 0
    assert "warning[MCM-S066]" in result.stderr
    assert "made for 'mcm4'" in result.stderr
    assert "MCM-S066" not in mcmc(*asked, "--target", "mcm4").stderr


def test_a_plan_and_tiles_are_proven_together(plan, tmp_path):
    passes = (
        f'apply_plan{{file="{plan[0]}"}},simplify,fuse,annotate_cost,parallelize{{tile_rows=16}},'
        "partition,legalize,split,map_chips,lower,simulate,emit,verify"
    )
    folder = tmp_path / "out"
    result = mcmc("compile", MODEL, "--target", "mcm4", "--passes", passes, "-O0", "-o", folder)
    assert result.exit_code == 0, result.output
    assert "MCM-P057" in result.stderr
    assert "MCM-V063" not in result.stderr
    assert check_folder(folder).holds


def test_mcm_s061_a_dimension_that_has_to_stay_whole(plan, tmp_path):
    path = changed(plan, tmp_path, transformer__h__0__ln_1__weight=0)
    result = mcmc("opt", MODEL, "--passes", f'apply_plan{{file="{path}"}}')
    assert result.exit_code == 1
    assert "MCM-S061" in result.stderr
    assert "LayerNormalization" in result.stderr


def test_mcm_s062_two_dimensions_that_meet(workspace):
    """The rows of one weight and those of the next: the first product has both as loops."""
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("v", (8, 6)), ("w", (6, 4)))
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "v"], ["hidden"], "first"),
        onnx.helper.make_node("MatMul", ["hidden", "w"], ["y"], "second"),
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (4, 8)), ("y", (4, 4)))
    ]
    graph = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    path, made = workspace / "net.onnx", workspace / "plan.json"
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=opsets), path)
    asked = ("--target", "mcm4", "--operator", "2", *EXACT)
    assert mcmc("parallelize", path, *asked, "-o", made).exit_code == 0
    data = json.loads(made.read_text())
    data["variables"] = {"v": {"dim": 0}, "w": {"dim": 0}}
    made.write_text(json.dumps(data))
    result = mcmc("opt", path, "--passes", f'apply_plan{{file="{made}"}}')
    assert result.exit_code == 1
    assert "MCM-S062" in result.stderr
    assert "'first'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--shard", "nothing*=0"), "MCM-S024"),
        (("--shard", "no number"), "MCM-S023"),
        (("--shard", "transformer.h.0.ln_1.weight=0"), "MCM-S025"),
        (("--training",), "MCM-S065"),
        (("--data", "9"), "MCM-P018"),
    ],
)
def test_what_cannot_be_is_refused(arguments, code):
    asked = ("--target", "mcm4", "--operator", "2", *EXACT, *arguments)
    result = mcmc("parallelize", MODEL, *asked)
    assert result.exit_code == 1
    assert code in result.stderr


def test_why_shows_the_way(plan):
    result = mcmc("parallelize", MODEL, "--why", "transformer.h.0.ln_1.weight.0")
    assert result.exit_code == 0, result.output
    assert "cannot be divided" in result.stdout
    result = mcmc(
        "parallelize", MODEL, "--plan", plan[0], "--why", "transformer.h.0.mlp.c_fc.weight.1"
    )
    assert "the plan divides it" in result.stdout
    fused = "transformer.h.0.attn.c_attn.weight"
    result = mcmc("parallelize", MODEL, "--plan", plan[0], "--why", f"{fused}.1")
    assert "into up to 2 parts, each 3 runs of consecutive elements" in result.stdout
    assert "'transformer.h.0.attn.c_proj.weight' dim 0" in result.stdout
    assert "the plan divides it" in result.stdout


def test_the_cost_objective_divides_attention_as_megatron_does():
    """Projections to queries, keys and values by columns, and the one after them by rows."""
    model = "zoo:gpt2-tiny{hidden=256,heads=4,intermediate=1024}"
    asked = ("--target", "mcm4", "--operator", "4", *EXACT, "--format", "json")
    result = mcmc("parallelize", model, *asked, "--objective", "cost")
    assert result.exit_code == 0, result.output
    dims = {name: v["dim"] for name, v in json.loads(result.stdout)["variables"].items()}
    for layer in range(2):
        of_layer = {
            name: dims[f"transformer.h.{layer}.{name}.weight"]
            for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
        }
        assert of_layer == {"attn.c_attn": 1, "attn.c_proj": 0, "mlp.c_fc": 1, "mlp.c_proj": 0}


def test_nothing_is_divided_over_one_device():
    for degrees in ((), ("--operator", 1)):
        asked = ("parallelize", MODEL, "--target", "mcm4", *degrees, *EXACT)
        result = mcmc(*asked, "--shard", "*/c_fc=1")
        assert result.exit_code == 1
        assert "error[MCM-S025]" in result.stderr
        assert "at: --shard '*/c_fc=1'" in result.stderr
        assert "error[MCM-S024]" in mcmc(*asked, "--shard", "*/nonsense=-1").stderr
        assert "error[MCM-S023]" in mcmc(*asked, "--shard", "nonsense").stderr
        assert mcmc(*asked, "--shard", "*/c_fc=-1").exit_code == 0
    asked = ("parallelize", MODEL, "--target", "config-a", "--operator", 1, *EXACT)
    assert "error[MCM-S025]" in mcmc(*asked, "--shard", "*/c_fc=1").stderr


def test_what_is_to_be_divided_is_divided_on_a_cluster():
    """Without the option the fastest way divides nothing."""
    model = f"{MODEL}{{batch=64}}"
    asked = ("parallelize", model, "--target", "config-a", "--training", *EXACT, "--format", "json")
    free = json.loads(mcmc(*asked).stdout)
    assert free["degrees"]["operator"] == 1
    result = mcmc(*asked, "--shard", "transformer.h.0.mlp.c_fc.weight=1")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["degrees"]["operator"] > 1
    assert data["variables"]["transformer.h.0.mlp.c_fc.weight"]["dim"] == 1


@pytest.mark.parametrize(
    ("option", "others"),
    [
        ("--plan", ("--shard", "x=1")),
        ("--plan", ("--operator", "2")),
        ("--plan", ("--training",)),
        ("--why", ("--stages", "2")),
        ("--why", ("--output", "p.json")),
    ],
)
def test_options_without_effect_are_refused(option, others):
    result = mcmc("parallelize", MODEL, option, "x", *others)
    assert result.exit_code == 2
    assert f"{option} takes no {others[0]}" in result.stderr


def test_mcm_s063_why_of_what_is_not_there():
    result = mcmc("parallelize", MODEL, "--why", "nothing.0")
    assert result.exit_code == 1
    assert "MCM-S063" in result.stderr


def test_a_cluster_is_planned_for_in_all_combinations():
    model = "zoo:bert{layers=2,hidden=64,heads=8,intermediate=128,vocab=500,seq=16,batch=16}"
    asked = ("--target", "config-a", "--training", *EXACT, "--format", "json")
    result = mcmc("parallelize", model, *asked)
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    ways = {(e["data"], e["operator"], e["stages"]) for e in data["estimates"]}
    assert ways >= {(16, 1, 1), (8, 1, 2), (4, 1, 4)}
    chosen = [e for e in data["estimates"] if e["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["seconds"] == min(e["seconds"] for e in data["estimates"] if e["seconds"])


def test_mcm_s027_a_degree_that_nothing_can_take():
    result = mcmc("parallelize", MODEL, "--target", "mcm36", "--operator", "2000")
    assert result.exit_code == 1
    assert "MCM-S027" in result.stderr


@pytest.mark.parametrize(
    "degrees",
    [
        ("--operator", "3"),
        ("--data", "2", "--stages", "2", "--operator", "1"),
        ("--stages", "16", "--data", "1", "--operator", "1"),
    ],
)
def test_mcm_s064_degrees_that_a_cluster_does_not_have(workspace, degrees):
    asked = ("--target", "config-a", *EXACT, *degrees)
    result = mcmc("parallelize", chain_of(workspace, weights=True), *asked)
    assert result.exit_code == 1, result.output
    assert "MCM-S064" in result.stderr


def test_data_and_stages_are_both_kept_to(workspace):
    asked = ("--target", "config-a", *EXACT, "--data", "8", "--stages", "2", "--format", "json")
    result = mcmc("parallelize", chain_of(workspace, weights=True), *asked)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["degrees"] == {"data": 8, "operator": 1, "pipeline": 2}


@pytest.mark.parametrize(("asked", "data"), [((), 2), (("--data", "2"), 2), (("--data", "1"), 1)])
def test_each_replica_of_a_package_has_the_stages_that_are_asked_for(workspace, asked, data):
    model = chain_of(workspace, weights=True)
    asked = ("--target", "mcm4", "--stages", "2", *asked, "--format", "json")
    result = mcmc("parallelize", model, *asked)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["degrees"]
    assert found == {"data": data, "operator": 1, "pipeline": 2}


def test_mcm_p018_more_stages_and_replicas_than_chips(workspace):
    asked = ("--target", "mcm4", "--stages", "3", "--data", "2")
    result = mcmc("parallelize", chain_of(workspace, weights=True), *asked)
    assert result.exit_code == 1
    assert "data 2 x stages 3 take 6 chips, and there are 4" in result.stderr


def test_a_model_without_weights_is_replicated_over_a_cluster(workspace):
    model = chain_of(workspace, weights=False)
    result = mcmc("parallelize", model, "--target", "config-a", *EXACT, "--format", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["degrees"] == {"data": 16, "operator": 1, "pipeline": 1}
    result = mcmc("parallelize", model, "--target", "config-a", *EXACT, "--stages", "2")
    assert result.exit_code == 1
    assert "MCM-S064" in result.stderr


def chain_of(workspace, weights):
    """A file of a few products of a batch of 16 one after another, or of its sigmoids."""
    rng = np.random.default_rng(0)
    values = [f"v{k}" for k in range(5)]
    stored, nodes = [], []
    for k, (read, made) in enumerate(itertools.pairwise(values)):
        if weights:
            stored.append(
                onnx.numpy_helper.from_array(rng.standard_normal((64, 64), np.float32), f"w{k}")
            )
            nodes.append(onnx.helper.make_node("MatMul", [read, f"w{k}"], [made], f"op{k}"))
        else:
            nodes.append(onnx.helper.make_node("Sigmoid", [read], [made], f"op{k}"))
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (16, 64))
        for name in (values[0], values[-1])
    ]
    graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:], stored)
    opsets = [onnx.helper.make_opsetid("", 18)]
    path = workspace / f"chain_{weights}.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=opsets), path)
    return path


@pytest.mark.parametrize(
    ("planner", "code", "part"),
    [
        ("auto-mop", "MCM-U003", "did you mean auto-map"),
        ("auto-map{luck=1}", "MCM-U002", "luck"),
        ("auto-map{", "MCM-U001", "expected an option name"),
    ],
)
def test_planners_that_are_not(planner, code, part):
    result = mcmc("parallelize", MODEL, "--target", "mcm4", "--planner", planner)
    assert result.exit_code == 1
    assert f"error[{code}]" in result.stderr
    assert part in result.stderr


def test_a_planner_plans_within_a_compile(workspace):
    """The same plan as in two steps; the folder is proven either way."""
    plan, apart, together = (workspace / name for name in ("p.json", "apart", "together"))
    asked = ("--target", "mcm4", "--operator", "2", *EXACT, "--objective", "cost", "-o", plan)
    assert mcmc("parallelize", MODEL, *asked).exit_code == 0
    options = ("--target", "mcm4", "--partitioner", "dp", "--seed", "0")
    assert mcmc("compile", MODEL, *options, "--plan", plan, "-o", apart).exit_code == 0
    first = "apply_plan{planner=auto-map,operator=2}"
    passes = f"{first},{DEFAULT_PIPELINE}"
    result = mcmc("compile", MODEL, *options, "--passes", passes, "-o", together)
    assert result.exit_code == 0, result.output
    chips = sorted(path.name for path in apart.glob("chip_*"))
    assert chips == sorted(path.name for path in together.glob("chip_*"))
    assert all((apart / n).read_bytes() == (together / n).read_bytes() for n in chips)
    assert check_folder(together, seeds=(0,)).holds


@pytest.mark.parametrize("options", ["", "{file=a,planner=auto-map}", "{file=a,operator=2}"])
def test_a_plan_comes_from_a_file_or_a_planner(options):
    result = mcmc("opt", MODEL, "--target", "mcm4", "--passes", f"apply_plan{options}")
    assert result.exit_code == 1
    assert "error[MCM-U002]" in result.stderr


def test_a_plan_and_a_planner_exclude_each_other(plan):
    result = mcmc("compile", MODEL, "--plan", plan[0], "--planner", "auto-map")
    assert result.exit_code == 2
    assert "--plan takes no --planner" in result.stderr
