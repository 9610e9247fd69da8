"""Rounds where weights are streamed: the classes read them once, and their rows go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.run_folder import read_compiled, simulation_data
from mcm_compiler.contracts.partition import PARTITION_PROBLEM
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.contracts.replication import DIVISION, REPLICATION
from mcm_compiler.contracts.sharding.divisions import DIVISION_BOUND
from mcm_compiler.machines.machine import OFF_PACKAGE_ROOT
from mcm_compiler.options import CompileOptions
from mcm_compiler.placements.side_by_side import MOST_TOGETHER, simulate_pipelines
from mcm_compiler.report.details import details_of
from mcm_compiler.report.sentences import simulator_sentence
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.parallelism.divisions import comparison

TARGET = Path(__file__).parents[1] / "data" / "targets" / "set36.toml"
WEIGHT_BYTES = 2 * 512 * 2048
"""Of both products, at the byte a weight that the target stores."""
PASSES = (
    "simplify,fuse,annotate_cost,parallelize{fraction=0.2},partition,legalize,split,lower,simulate"
)


@pytest.fixture(scope="module")
def two_products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two large products, of which no chip of the target holds both."""
    return products(tmp_path_factory.mktemp("models") / "two.onnx", 2048)


def products(path: Path, wide: int) -> Path:
    """Two products, with so many columns in between."""
    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        [
            helper.make_node("Tanh", ["x"], ["t"], "before"),
            helper.make_node("MatMul", ["t", "a"], ["h"], "up"),
            helper.make_node("Relu", ["h"], ["r"], "relu"),
            helper.make_node("MatMul", ["r", "b"], ["y"], "down"),
        ],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 512])],
        [
            numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
            for name, shape in (("a", (512, wide)), ("b", (wide, 512)))
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_a_round_reads_streamed_weights_once(two_products: Path) -> None:
    each_s: list[float] = []
    read: list[int] = []
    for classes in (1, 2, 4):
        options = CompileOptions(passes=PASSES, replicas=36, level=0, round=classes)
        model, _, _ = run_passes(str(two_products), TARGET, options)
        simulation = SIMULATION.get(model)
        each_s.append(simulation.period_s / REPLICATION.get(model).at_once)
        read += [k.bytes_per_inference for k in simulation.links if k.source == OFF_PACKAGE_ROOT]
        # Rows of several inferences go together, of which the bound over divisions knows nothing.
        assert (DIVISION_BOUND.find(model) is None) == (classes > 1)
    # One inference has room for more weights that stay. What a round reads, it reads once.
    assert read[0] <= read[1] == read[2] <= WEIGHT_BYTES
    assert each_s[1] < 0.8 * each_s[0]
    assert each_s[2] < 0.4 * each_s[0]
    kernels = [kernel.nodes for kernel in PROGRAM.get(model).chips[0].kernels]
    assert any(len([name for name in nodes if name.startswith("up")]) == 4 for nodes in kernels)
    assert all(len(nodes) == 1 for nodes in kernels if nodes[0].startswith("before"))


def test_what_shares_reads_is_proven(two_products: Path, tmp_path: Path) -> None:
    options = CompileOptions(replicas=36, level=0, round=2)
    result = compile_model(two_products, TARGET, options, output=tmp_path / "out")
    assert result.verification is not None
    assert result.verification.holds
    assert all(step.holds for step in check_folder(tmp_path / "out").steps)


def test_the_report_says_that_one_replica_stands_for_all(
    two_products: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "; 1 of 2 replicas simulated, with the transfers of all"
    options = CompileOptions(passes=f"{PASSES},emit", replicas=2, level=0, chips=2)
    monkeypatch.setattr("mcm_compiler.placements.side_by_side.MOST_TOGETHER", 0)
    compile_model(two_products, TARGET, options, output=tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert line in details_of(report)["simulation"]
    opened = read_compiled(tmp_path / "out")
    for most in (0, MOST_TOGETHER):
        monkeypatch.setattr("mcm_compiler.placements.side_by_side.MOST_TOGETHER", most)
        played = simulate_pipelines(opened.target, opened.program, 1, 2, 1)
        said = line in simulator_sentence("", simulation_data(played, opened))
        assert said is (most == 0)


def test_a_round_of_what_a_chip_holds_is_placed_once() -> None:
    passes = "simplify,fuse,annotate_cost,parallelize,partition"
    options = CompileOptions(passes=passes, replicas=36, level=0, round=2)
    network = "zoo:plain-cnn{image_size=32,stages=2,blocks=2,width=32}"
    found = REPLICATION.get(run_passes(network, TARGET, options)[0])
    assert (found.replicas, found.round) == (36, 2)


def two_chips(path: Path, own_memory: bool = False) -> Path:
    """Two chips of the template; with a channel from off-package memory each, or with one."""
    text = TARGET.read_text("utf-8").replace("size = [6, 6]", "size = [1, 2]")
    memory = "[off_package_memory]\nbandwidth_gb_per_s = 64\n"
    total = "total_bandwidth_gb_per_s = 36\n"
    assert memory + total in text
    path.write_text(text.replace(memory + total, memory) if own_memory else text, "utf-8")
    return path


LEVEL = "simplify,fuse,annotate_cost,parallelize"


def test_a_level_streams_what_no_package_holds(tmp_path: Path) -> None:
    network, target = products(tmp_path / "wide.onnx", 2304), two_chips(tmp_path / "set2.toml")
    model, notes, _ = run_passes(network, target, CompileOptions(passes=LEVEL))
    found = REPLICATION.get(model)
    assert (found.replicas, found.round) == (2, 8)
    assert DIVISION.get(model) in comparison.FOR_STREAMS
    assert DIVISION_BOUND.find(model) is None
    (note,) = (one for one in notes if one.code == "MCM-P071")
    _, step, _, options, _ = note.message.split("`")
    assert options == "--replicas 2 --round 8"
    passes = LEVEL.replace("parallelize", step)
    repeated = CompileOptions(passes=passes, level=0, replicas=2, round=8)
    again, _, _ = run_passes(network, target, repeated)
    assert [node.name for node in again.graph] == [node.name for node in model.graph]


def test_chips_with_memory_of_their_own_do_not_stream_all_of_the_weights(tmp_path: Path) -> None:
    network = products(tmp_path / "wide.onnx", 2304)
    target = two_chips(tmp_path / "own.toml", own_memory=True)
    model, _, _ = run_passes(network, target, CompileOptions(passes=LEVEL))
    assert DIVISION.get(model) not in comparison.FOR_STREAMS


def test_a_level_streams_where_no_partition_of_the_undivided_model_fits(tmp_path: Path) -> None:
    network = "zoo:plain-cnn{image_size=128,stages=2,blocks=1,width=64,shape_only=true}"
    target = two_chips(tmp_path / "set2.toml")
    model, notes, _ = run_passes(network, target, CompileOptions(passes=LEVEL))
    assert DIVISION.get(model) in comparison.FOR_STREAMS
    assert REPLICATION.get(model).replicas == 2
    assert any("`--replicas 2 --round 1`" in one.message for one in notes)


def test_an_input_takes_memory_until_its_last_reader(tmp_path: Path) -> None:
    pooled: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["x"], ["t"], "shrink"),
            helper.make_node("Mul", ["t", "w"], ["h"], "grow"),
            helper.make_node("MaxPool", ["h"], ["p"], "pool", **pooled),
            helper.make_node("GlobalAveragePool", ["p"], ["s"], "shrink again"),
            helper.make_node("Mul", ["s", "v"], ["m"], "grow again"),
            helper.make_node("GlobalAveragePool", ["m"], ["y"], "end"),
        ],
        "input",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 700, 700])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 1])],
        [
            numpy_helper.from_array(np.ones((1, 1, side, side), np.float32), name)
            for name, side in (("w", 560), ("v", 300))
        ],
    )
    path = tmp_path / "input.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    passes = "fuse,annotate_cost,parallelize,partition,legalize,split,lower"
    model, _, _ = run_passes(path, TARGET, CompileOptions(passes=passes, chips=1))
    (chip,) = PROGRAM.get(model).chips
    assert not PROGRAM.get(model).overflows
    (need,) = evaluate(PARTITION_PROBLEM.get(model).at_need(), np.zeros(6, np.int32)).memory_bytes
    assert need <= chip.high_water_bytes
