"""Tiles that share buffers on chips that are too small for buffers of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.api import run_passes
from mcm_compiler.checking.memory_check import check_memory, overlapping_buffers
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.program import PROGRAM, SIMULATION, LoweredProgram, Queue
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.json_text import record_of
from tests.generators.small_mesh import SmallMesh, small_mesh

TILES = 6
NAMES = [f"a/tile_{tile}" for tile in range(TILES)]
WIRES = [Wire("x", HOST, (0,)), *(Wire(name, 0, (1,)) for name in NAMES), Wire("y", 1, (HOST,))]
TIGHT = 10 * 1024


def chip_model(index: int, model: ir.Model) -> ChipModel:
    graph = model.graph
    for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
        if value.name and value.name.startswith("a_"):
            value.name = value.name.replace("a_", "a/tile_")
    inputs, outputs = (tuple(v.name for v in values) for values in (graph.inputs, graph.outputs))
    return ChipModel(index, model, inputs, outputs)


@pytest.fixture
def chips(model) -> list[ChipModel]:
    """One chip makes tiles of 1 KiB, the next one reads one after another."""
    tiles = [f"a_{tile}" for tile in range(TILES)]
    typed = ", ".join(f"float[16,32] {name}" for name in tiles)
    made = " ".join(f"{name} = Exp(x)" for name in tiles)
    summed = " ".join(f"s_{k + 1} = Add(s_{k}, a_{k + 1})" for k in range(1, TILES - 1))
    return [
        chip_model(0, model(f"g (float[16,32] x) => ({typed}) {{ {made} }}")),
        chip_model(
            1,
            model(
                f"g ({typed}) => (float[16,32] y) {{ s_1 = Add(a_0, a_1) {summed}"
                f" y = Exp(s_{TILES - 1}) }}"
            ),
        ),
    ]


def package(sram_bytes: int) -> SmallMesh:
    mesh = small_mesh(
        1, 2, link_bytes_per_s=1e10, link_latency_s=1e-8, host_bytes_per_s=1e10, host_latency_s=0.0
    )
    chips = tuple(replace(chip, sram_bytes=sram_bytes) for chip in mesh.spec.chips)
    return replace(mesh, spec=replace(mesh.spec, chips=chips, reference=chips[0]))


def queues(program: LoweredProgram) -> list[Queue]:
    return [queue for chip in program.chips for queue in chip.queues]


def test_memory_that_suffices_has_no_queues(chips):
    program = package(1 << 20).lower(chips, WIRES)
    assert queues(program) == []
    assert "queues" not in program.to_dict()["chips"][0]


def test_tiles_share_buffers_and_take_no_longer(chips):
    roomy, tight = package(1 << 20), package(TIGHT)
    apart, shared = roomy.lower(chips, WIRES), tight.lower(chips, WIRES)
    assert not shared.overflows
    assert [queue.kind for queue in queues(shared)] == ["send", "receive"]
    for chip, queue in zip(shared.chips, queues(shared), strict=True):
        assert len(queue.tensors) == TILES
        assert queue.buffers < 2 * TILES
        assert chip.high_water_bytes <= TIGHT < apart.chips[chip.chip].high_water_bytes
        assert overlapping_buffers(chip.buffers) == []
        assert sum(b.kind == queue.kind for b in chip.buffers) == queue.buffers
    assert tight.simulator().run(shared).period_s == roomy.simulator().run(apart).period_s
    assert record_of(shared.to_dict(), LoweredProgram) == shared
    assert check_memory(chips, WIRES, tight, shared).startswith("no overlap")


@pytest.mark.parametrize("buffers", [2, 3, 4, 5, 7])
def test_the_simulator_fills_no_buffer_before_its_last_reader_has_ended(chips, buffers):
    target = package(TIGHT)
    program = target.lower(chips, WIRES)
    program = with_queue(program, 1, buffers=buffers)
    (queue,) = program.chips[1].queues
    played = target.simulator().timeline(program, 8)
    seconds = [kernel.duration_s for chip in program.chips for kernel in chip.kernels]
    first_hop = {hop.transfer: at for at, hop in reversed(list(enumerate(played.hops)))}
    reader = {
        index: at
        for at, kernel in enumerate(k for chip in program.chips for k in chip.kernels)
        for index in kernel.reads
    }
    order = [index for (index,) in queue.tensors]
    taken = played.hop_start_s[:, [first_hop[index] for index in order]].ravel()
    free = played.kernel_start_s[:, [reader[index] for index in order]]
    free = (free + np.array([seconds[reader[index]] for index in order])).ravel()
    assert (taken[buffers:] >= free[:-buffers] - 1e-15).all()


def test_shared_buffers_count_where_they_do_not_suffice_either(chips):
    (over,) = package(4 * 1024).lower(chips, WIRES).overflows
    apart = package(1 << 20).lower(chips, WIRES).chips[over.chip]
    assert over.limit_bytes < over.demand_bytes < apart.high_water_bytes


def test_a_model_whose_tiles_need_shared_buffers_compiles(tmp_path: Path):
    """Without queues, MCM-P008 refuses it."""
    text = load_target("simba36").source_text.replace("[6, 6]", "[2, 2]")
    path = tmp_path / "small.toml"
    path.write_text(text.replace("sram_mib = 2", f"sram_mib = {240 / 1024}"), encoding="utf-8")
    passes = "simplify,fuse,annotate_cost,parallelize{fraction=0.125,tile_rows=4}"
    options = CompileOptions(
        level=1, replicas=1, round=1, passes=f"{passes},partition,legalize,split,lower,simulate"
    )
    network = "zoo:plain-cnn{image_size=64,stages=2,blocks=1,width=64,shape_only=true}"
    model, _, _ = run_passes(network, str(path), options)
    assert queues(PROGRAM.get(model))
    assert SIMULATION.get(model).period_s < 160e-6


def with_queue(program: LoweredProgram, chip: int, **changes: object) -> LoweredProgram:
    (queue,) = program.chips[chip].queues
    chips = list(program.chips)
    chips[chip] = replace(chips[chip], queues=(replace(queue, **changes),))
    return replace(program, chips=tuple(chips))


@pytest.mark.parametrize("chip", [0, 1])
def test_an_altered_order_of_buffers_is_refused(chips, chip):
    target = package(TIGHT)
    program = target.lower(chips, WIRES)
    (queue,) = program.chips[chip].queues
    for turned in (queue.tensors[::-1], (*queue.tensors[1:], queue.tensors[0])):
        altered = with_queue(program, chip, tensors=turned, buffers=1)
        with pytest.raises(CompileError) as caught:
            check_memory(chips, WIRES, target, altered)
        assert caught.value.diagnostics[0].code == "MCM-V043"


def test_a_queue_without_its_buffers_is_refused(chips):
    target = package(TIGHT)
    program = target.lower(chips, WIRES)
    (queue,) = program.chips[1].queues
    altered = with_queue(program, 1, buffers=queue.buffers + 1)
    with pytest.raises(CompileError) as caught:
        check_memory(chips, WIRES, target, altered)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-V043"
    assert fault.message.endswith("is not in the memory plan")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"buffers": 0}, "it has 0 buffers"),
        ({"tensors": ((99,),)}, "there is no transfer 99"),
        ({"tensors": ((0,),)}, "transfer 0 has no such buffer there"),
        ({"tensors": ((1,), (1,))}, "transfer 1 is in two queues"),
        ({"tensors": ((1, 2),)}, "two transfers bring one tensor"),
    ],
)
def test_the_simulator_refuses_what_no_queue_is(chips, changes, problem):
    target = package(TIGHT)
    program = target.lower(chips, WIRES)
    with pytest.raises(CompileError) as caught:
        target.simulator().run(with_queue(program, 1, **changes))
    fault = caught.value.diagnostics[0]
    assert (fault.code, problem in fault.message) == ("MCM-T012", True)
