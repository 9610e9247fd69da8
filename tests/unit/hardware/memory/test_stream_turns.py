"""Streamed weights among activations, read once for all replicas: a small network on a mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.memory_check import turn_faults
from mcm_compiler.components.capabilities import simulator_of
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.program import PROGRAM, SIMULATION, LoweredProgram, SimulationResult
from mcm_compiler.contracts.target import ChipModel, machine_of
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import OFF_PACKAGE, OFF_PACKAGE_ROOT
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.options import CompileOptions
from mcm_compiler.placements.side_by_side import MOST_TOGETHER, side_by_side
from mcm_hardware.chip.chip_dataflow import chip_dataflow
from mcm_hardware.event_graph.graph import event_graph
from mcm_hardware.event_graph.program_arrays import channel_arrays, program_arrays
from mcm_hardware.memory.activation_plan import order_by_demand, plan_activations
from tests.generators.small_mesh import small_mesh

TARGET = """
family = "package"
[package]
channel_slots = 1
spill = "stream"
[topology]
kind = "mesh"
size = [2, 2]
routing = "xy"
[chip]
sram_mib = 0.025390625
sram_bandwidth_gb_per_s = 64
buffer_alignment_bytes = 64
launch_overhead_ns = 0
[chip.mac_array]
rows = 4
cols = 4
clock_mhz = 1000
[chip.vector_unit]
lanes = 16
clock_mhz = 1000
[link]
bandwidth_gb_per_s = 16
hop_latency_us = 0
[host]
bandwidth_gb_per_s = 4
total_bandwidth_gb_per_s = 4
latency_us = 0
[off_package_memory]
bandwidth_gb_per_s = 4
total_bandwidth_gb_per_s = 2
latency_us = 0
[storage_bits]
FLOAT = 8
"""
DIVIDED = "simplify,fuse,annotate_cost,parallelize{fraction=0.2,tile_rows=4}"
TO_PROGRAM = f"{DIVIDED},partition,legalize,split,lower"
WHOLE = f"{TO_PROGRAM},simulate,emit,verify".replace("lower", "map_chips,lower")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "tiny.toml"
    path.write_text(TARGET)
    return path


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three convolutions whose results take a third of a chip each, and a product."""
    rng = np.random.default_rng(0)
    nodes, weights, value, channels = [], [], "x", 8
    for layer, width in enumerate((16, 32, 32)):
        shape = (width, channels, 3, 3)
        weights.append(numpy_helper.from_array(rng.normal(size=shape).astype("f4"), f"w{layer}"))
        pads = {"pads": [1, 1, 1, 1], "strides": [1, 1] if layer < 2 else [4, 4]}
        nodes.append(helper.make_node("Conv", [value, f"w{layer}"], [f"c{layer}"], **pads))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        value, channels = f"r{layer}", width
    weights.append(numpy_helper.from_array(rng.normal(size=(512, 64)).astype("f4"), "fc"))
    nodes += [
        helper.make_node("Flatten", [value], ["flat"]),
        helper.make_node("Gemm", ["flat", "fc"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path = tmp_path_factory.mktemp("model") / "network.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def program(network: Path, target: Path) -> LoweredProgram:
    made, _, _ = run_passes(network, target, CompileOptions(replicas=4, level=0, passes=TO_PROGRAM))
    return PROGRAM.get(made)


def test_weights_beyond_all_memory_compile_verify_and_check(
    network: Path, target: Path, tmp_path: Path
) -> None:
    options = CompileOptions(replicas=4, level=0, passes=WHOLE)
    result = compile_model(network, target=target, options=options, output=tmp_path / "out")
    assert result.verification is not None
    assert result.verification.holds
    links = {(k.source, k.destination): k.bytes_per_inference for k in result.simulation.links}
    # Four replicas, and one read of the shared channel for all of them.
    assert links[OFF_PACKAGE_ROOT, OFF_PACKAGE] == links[OFF_PACKAGE, 0] > 8 * 1024
    report = check_folder(tmp_path / "out")
    assert report.holds
    assert report.diagnostics == ()
    # Sums over 512 elements are cut, so that pieces have 32 columns and still fit.
    products = [node.inputs[1] for node in result.chips[0].model.graph if node.op_type == "Gemm"]
    assert {tuple(weight.shape.numpy()) for weight in products} == {(128, 32)}


def test_inputs_have_memory_until_their_last_reader(
    network: Path, target: Path, tmp_path: Path
) -> None:
    options = CompileOptions(replicas=4, level=0, round=4, passes=WHOLE)
    result = compile_model(network, target=target, options=options, output=tmp_path / "out")
    chip, transfers = result.program.chips[0], result.program.transfers
    inputs = [b for b in chip.buffers if b.name.startswith("x@")]
    assert [(b.kind, b.size_bytes) for b in inputs] == [("stream", 2 * 1024)] * 4
    assert not [b for b in chip.buffers if b.kind == "receive"]
    reader = {t: k for k, kernel in enumerate(chip.kernels) for t in kernel.reads}
    for buffer in inputs:
        [index] = [i for i, one in enumerate(transfers) if one.tensor == buffer.name]
        one, freed = transfers[index], reader[transfers[index].reuses]
        assert (one.lag, buffer.first) == ((1, 0) if buffer is inputs[0] else (0, freed + 1))
        assert buffer.last == reader[index]
    assert check_folder(tmp_path / "out").holds
    models = result.chips[:1]
    assert [*turn_faults(chip, result.program, models)] == []
    sooner = min((t for t in reader if transfers[t].source == OFF_PACKAGE), key=reader.__getitem__)
    for at, changes in ((0, {"reuses": sooner}), (1, {"reuses": sooner}), (1, {"lag": 1})):
        altered = [replace(t, **changes) if t.tensor == f"x@{at}" else t for t in transfers]
        program = replace(result.program, transfers=tuple(altered))
        assert len([*turn_faults(chip, program, models)]) == 1
    shorter = [replace(b, last=b.last - 1) if b in inputs[1:] else b for b in chip.buffers]
    early = replace(chip, buffers=tuple(shorter))
    assert len([*turn_faults(early, result.program, models)]) == 3
    # An input that waits for a kernel comes behind it, wherever inputs of other replicas are.
    machine = machine_of(load_target(target))
    arrays = program_arrays(side_by_side(result.program, 4, 1, machine))
    graph = event_graph(arrays, channel_arrays(machine))
    place = np.argsort(graph.order)
    waiting = np.repeat(np.arange(len(place)), np.diff(graph.wait_ptr))
    source, soon = graph.waits.source[: len(waiting)], graph.waits.lag[: len(waiting)] == 0
    assert (place[source[soon]] < place[waiting[soon]]).all()


@pytest.mark.parametrize("replicas_rounds", [(4, 1), (4, 2)])
def test_one_replica_stands_for_many_that_are_too_large_to_simulate(
    network: Path, target: Path, monkeypatch: pytest.MonkeyPatch, replicas_rounds: tuple[int, int]
) -> None:
    found: list[SimulationResult] = []
    for most in (MOST_TOGETHER, 0):
        monkeypatch.setattr("mcm_compiler.placements.side_by_side.MOST_TOGETHER", most)
        replicas, classes = replicas_rounds
        passes = f"{TO_PROGRAM},simulate"
        options = CompileOptions(replicas=replicas, level=0, round=classes, passes=passes)
        found.append(SIMULATION.get(run_passes(network, target, options)[0]))
    together, alone = found
    # An input that waits for memory comes behind those of all replicas.
    assert together.period_s * (1 - 1e-9) <= alone.period_s <= 1.05 * together.period_s
    for one, other in zip(alone.links, together.links, strict=True):
        assert one.busy_s == pytest.approx(other.busy_s)
        assert one.bytes_per_inference == other.bytes_per_inference


def test_buffers_of_weights_lie_where_activations_are_not(program: LoweredProgram) -> None:
    buffers = [b for b in program.chips[0].buffers if b.kind in ("stream", "activation")]
    kinds = {b.kind for b in buffers}
    assert kinds == {"stream", "activation"}
    for at, one in enumerate(buffers):
        for other in buffers[:at]:
            apart = one.last < other.first or other.last < one.first
            below = one.address + one.size_bytes <= other.address
            assert apart or below or other.address + other.size_bytes <= one.address
    stream = [b for b in buffers if b.kind == "stream"]
    assert sum(b.size_bytes for b in stream) > 32 * 1024


def test_each_weight_is_on_its_way_once_its_buffer_is_free(program: LoweredProgram) -> None:
    """A transfer waits for a kernel before the first that its buffer is taken by."""
    kernels = program.chips[0].kernels
    reader = {t: k for k, kernel in enumerate(kernels) for t in kernel.reads}
    streamed = [t for t, one in enumerate(program.transfers) if one.source == OFF_PACKAGE]
    turns = [b for b in program.chips[0].buffers if b.name.startswith("stream")]
    of_kernel = dict(zip(sorted({reader[t] for t in streamed}), turns, strict=True))
    for t in streamed:
        freed, turn = reader[program.transfers[t].reuses], of_kernel[reader[t]]
        assert turn.first == (freed + 1 if freed < reader[t] else 0)
        assert turn.last >= reader[t]


@pytest.mark.parametrize("change", [{"size_bytes": 1}, {"destination": 9}])
def test_a_read_is_shared_by_equal_weights_alone(
    program: LoweredProgram, target: Path, change: dict[str, int]
) -> None:
    package = load_target(target)
    together = side_by_side(program, 4, 1, machine_of(package))
    changed = list(together.transfers)
    last = max(t for t, one in enumerate(changed) if one.source == OFF_PACKAGE and one.after >= 0)
    changed[last] = replace(changed[last], **change)
    with pytest.raises(CompileError) as caught:
        simulator_of(package).run(replace(together, transfers=tuple(changed)))
    assert {d.code for d in caught.value.diagnostics} == {"MCM-T012"}


def test_chips_that_share_one_channel_outside_are_alike(target: Path) -> None:
    assert (4, 1) in equal_shares(4, machine_of(load_target(target)))


def test_pieces_have_as_few_columns_as_a_weight_may_take(program: LoweredProgram) -> None:
    """8 of the product, whose activations are few; low images stay whole."""
    pieces = [t.size_bytes for t in program.transfers if t.tensor.startswith("fc")]
    assert pieces == [512 * 8] * 8
    names = [kernel.name for kernel in program.chips[0].kernels]
    assert sum("tile" in name for name in names) >= 8
    assert not any(name.startswith("Conv_4") and "tile" in name for name in names)


def test_tiles_pass_on_before_the_next_ones_are_made(model) -> None:
    """Two layers of eight tiles: one layer after the other holds eight tiles, this order three.

    The sum of a tile runs as soon as there is the tile, which it frees.
    """
    tiles = range(8)
    text = " ".join(f"a_{k} = Exp(x) " for k in tiles)
    text += " ".join(f"b_{k} = Concat <axis = 0> (a_{k}, a_{min(k + 1, 7)})" for k in tiles)
    text += " ".join(f" c_{k} = ReduceSum <keepdims = 1> (b_{k})" for k in tiles)
    names = ", ".join(f"c_{k}" for k in tiles)
    chip = ChipModel(
        0, model(f"g (float[16,32] x) => (float y) {{ {text} y = Max({names}) }}"), ("x",), ("y",)
    )
    flow, spec = (
        chip_dataflow(chip, {(0, "x"): 0}, {(0, "y"): (1,)}),
        small_mesh(1, 1).spec.chips[0],
    )
    given = plan_activations(flow, spec).high_water_bytes
    found = order_by_demand(flow, spec)
    made = [node.outputs[0].name for kernel in found.kernels for node in kernel.nodes]
    assert sorted(made) == sorted(n.outputs[0].name for k in flow.kernels for n in k.nodes)
    assert all(made[made.index(f"b_{k}") + 1] == f"c_{k}" for k in tiles)
    assert plan_activations(found, spec).high_water_bytes < 0.5 * given
