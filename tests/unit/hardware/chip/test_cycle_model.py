"""The durations that the simulator plays: tiles, fill and drain, traffic, blocks, speeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.cost import NodeCost
from mcm_hardware.chip.kernel_work import kernel_work
from mcm_hardware.chip.roofline import copy_seconds, cycle_model, launch_seconds
from mcm_hardware.chip.tile_cycles import (
    left_readings,
    passes,
    pipelined_cycles,
    result_blocks,
    right_readings,
    streaming_cycles,
)
from mcm_hardware.op_costs.work import Gemm


@pytest.fixture
def weight_array(chip):
    return replace(chip.array, dataflow="weight_stationary")


def test_weights_that_stay_are_cut_along_their_own_axes(weight_array):
    gemm = Gemm(2, 1000, 65, 130)
    # 3 tiles above one another, 2 beside one another; 1000 rows stream through each.
    assert passes(weight_array, gemm) == 2 * 3 * 2
    assert streaming_cycles(weight_array, gemm) == 12 * 1000
    assert result_blocks(weight_array, gemm) == 2 * 2
    assert (left_readings(weight_array, gemm), right_readings(weight_array, gemm)) == (2, 1)


def test_results_that_stay_are_cut_along_theirs(chip):
    gemm = Gemm(2, 1000, 65, 130)
    assert passes(chip.array, gemm) == result_blocks(chip.array, gemm) == 2 * 16 * 2
    assert (left_readings(chip.array, gemm), right_readings(chip.array, gemm)) == (2, 16)


@pytest.mark.parametrize(
    ("dataflow", "gemm", "rows", "cols", "steps"),
    [
        ("output_stationary", Gemm(1, 64, 64, 100), 64, 64, 100),
        ("output_stationary", Gemm(1, 3, 9, 77), 3, 9, 77),
        ("output_stationary", Gemm(1, 50, 9, 7), 50, 9, 7),
        ("weight_stationary", Gemm(1, 100, 64, 64), 64, 64, 100),
        ("weight_stationary", Gemm(1, 77, 9, 3), 3, 9, 77),
    ],
)
def test_a_lone_tile_takes_what_scale_sim_says(chip, dataflow, gemm, rows, cols, steps):
    array = replace(chip.array, dataflow=dataflow)
    assert pipelined_cycles(array, gemm) == 2 * rows + cols + steps - 2


def test_weights_for_few_rows_wait_for_the_next_weights(weight_array):
    # A row per tile, and 64 cycles until the next tile of weights is in.
    gemm = Gemm(1, 1, 64, 640)
    assert streaming_cycles(weight_array, gemm) == 10
    assert pipelined_cycles(weight_array, gemm) == 9 * 64 + (2 * 64 + 64 + 1 - 2)


def test_an_array_without_work_takes_no_time(chip, weight_array):
    for gemm in (Gemm(0, 3, 4, 5), Gemm(1, 0, 4, 5), Gemm(1, 3, 4, 0)):
        assert pipelined_cycles(chip.array, gemm) == pipelined_cycles(weight_array, gemm) == 0


def test_operands_are_read_again_for_every_tile_that_needs_them(model, chip):
    (node,) = model(
        "g (float[640,128] x, float[128,192] w) => (float[640,192] y) { y = MatMul(x, w) }"
    ).graph
    narrow = replace(chip, sram_bytes_per_s=1e9)
    cost = cycle_model(narrow).node_cost(node)
    left, right, result = 640 * 128 * 2, 128 * 192 * 2, 640 * 192 * 2
    assert cost.bound_by == "memory"
    assert cost.seconds == pytest.approx(chip.launch_s + (3 * left + 10 * right + result) / 1e9)
    # What an op is said to read is what it needs, and not how often.
    assert cost.read_bytes == left + right
    weights_stay = replace(narrow, array=replace(chip.array, dataflow="weight_stationary"))
    cost = cycle_model(weights_stay).node_cost(node)
    assert cost.seconds == pytest.approx(chip.launch_s + (3 * left + right + result) / 1e9)


def test_windows_that_overlap_are_read_once_per_pass(model, chip):
    (node,) = model(
        "g (float[1,16,32,32] x, float[128,16,3,3] w) => (float[1,128,32,32] y)"
        "{ y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w) }"
    ).graph
    cost = cycle_model(replace(chip, sram_bytes_per_s=1e9)).node_cost(node)
    image, weights, result = 16 * 1024 * 2, 128 * 144 * 2, 128 * 1024 * 2
    assert cost.seconds == pytest.approx(chip.launch_s + (2 * image + 16 * weights + result) / 1e9)


def test_operands_in_registers_are_not_read(model, chip):
    graph = model(
        "g (float[640,128] x, float[128,192] w) => (float[640,192] y)"
        "{ a = Relu(x) y = MatMul(a, w) }"
    ).graph
    narrow = replace(chip, sram_bytes_per_s=1e9)
    cost = cycle_model(narrow).group_cost(list(graph))
    left, right, result = 640 * 128 * 2, 128 * 192 * 2, 640 * 192 * 2
    assert cost.seconds == pytest.approx(chip.launch_s + (left + 10 * right + result) / 1e9)


def test_rows_of_products_by_one_weight_go_through_the_array_together(model, chip):
    head = "g (float[16,128] x, float[16,128] u, float[128,128] w) => (float[16,128] y, "
    costs = cycle_model(chip)

    def cost(ops: str) -> NodeCost:
        graph = model(f"{head}float[16,128] z) {{ {ops} }}").graph
        graph.inputs[2].const_value = ir.tensor(np.zeros((128, 128), np.float32))
        return costs.group_cost(list(graph))

    together = cost("y = MatMul (x, w) z = MatMul (u, w)")
    both = model("g (float[32,128] x, float[128,128] w) => (float[32,128] y) { y = MatMul (x, w) }")
    assert together.seconds == pytest.approx(costs.group_cost(list(both.graph)).seconds)
    # What waits for the first product's result cannot go with it.
    assert cost("y = MatMul (x, w) z = MatMul (y, w)").seconds > together.seconds
    assert cost("y = MatMul (x, w) v = Flatten (y) z = MatMul (v, w)").seconds > together.seconds


@pytest.mark.parametrize(("number", "lane_ops"), [(1, 64), (8, 256)])
def test_a_repeated_value_is_scaled_before_it_is_repeated(model, chip, number, lane_ops):
    graph = model(
        f"g (float[8,8] x, int64[2] many, float[{number}] f) => (float[32,8] y)"
        " { v = Expand (x, many) y = Mul (f, v) }"
    ).graph
    repeated, scaled = graph
    repeated.outputs[0].shape = ir.Shape([32, 8])
    assert kernel_work([repeated, scaled], chip.storage).lane_ops == lane_ops
    assert kernel_work([scaled], chip.storage).lane_ops == 256


def test_products_of_one_op_by_weights_of_their_own_stay_apart(model, chip):
    graph = model(
        "g (float[1,2,16] x, float[1,64,16] w, float[1,64,16] r) => (float[1,1,2,16] z)"
        " { y = LSTM <hidden_size = 16> (x, w, r) z = Relu (y) }"
    ).graph
    for value in graph.inputs[1:]:
        value.const_value = ir.tensor(np.zeros((1, 64, 16), np.float32))
    products = kernel_work(list(graph), chip.storage).gemms
    assert len(products) == 2
    assert products == kernel_work([graph[0]], chip.storage).gemms


@pytest.mark.parametrize(
    ("ops", "reads"),
    [
        ("a = Concat <axis = 0> (x, u)", 3),
        ("p = Concat <axis = 0> (x, u) a = Slice (p, zero, all)", 3),
        ("p = Relu (x) a = Concat <axis = 0> (p, u)", 1),
        ("p = Relu (x) q = Flatten (p) a = Concat <axis = 0> (q, u)", 1),
    ],
)
def test_ranges_of_operands_are_read_again_as_operands_are(model, chip, ops, reads):
    graph = model(
        "g (float[320,128] x, float[320,128] u, float[128,192] w) => (float[640,192] y)"
        f"<int64[1] zero = {{0}}, int64[1] all = {{640}}> {{ {ops} y = MatMul (a, w) }}"
    ).graph
    cost = cycle_model(replace(chip, sram_bytes_per_s=1e9)).group_cost(list(graph))
    left, right, result = 640 * 128 * 2, 128 * 192 * 2, 640 * 192 * 2
    assert cost.read_bytes == pytest.approx(left + right, rel=1e-3)
    assert cost.seconds == pytest.approx(
        chip.launch_s + (reads * left + 10 * right + result) / 1e9, rel=1e-3
    )


@pytest.mark.parametrize("dataflow", ["output_stationary", "weight_stationary"])
def test_the_last_block_is_finished_after_the_array(model, chip, dataflow):
    chip = replace(chip, array=replace(chip.array, dataflow=dataflow))
    graph = model(
        "g (float[64,256] x, float[256,64] w) => (float[64,64] y) { a = MatMul(x, w) y = Erf(a) }"
    ).graph
    array_s = pipelined_cycles(chip.array, Gemm(1, 64, 64, 256)) / 500e6
    vector_s = 15 * 64 * 64 / 128 / 500e6
    cost = cycle_model(chip).group_cost(list(graph))
    assert cost.bound_by == ("array" if array_s >= vector_s else "vector")
    assert cost.seconds == pytest.approx(chip.launch_s + array_s + vector_s)


def test_many_blocks_overlap_with_what_follows(model, chip):
    graph = model(
        "g (float[640,256] x, float[256,64] w) => (float[640,64] y) { a = MatMul(x, w) y = Erf(a) }"
    ).graph
    array_s = pipelined_cycles(chip.array, Gemm(1, 640, 64, 256)) / 500e6
    vector_s = 15 * 640 * 64 / 128 / 500e6
    assert vector_s > array_s
    cost = cycle_model(chip).group_cost(list(graph))
    assert cost.bound_by == "vector"
    assert cost.seconds == pytest.approx(chip.launch_s + vector_s + array_s / 10)


def test_times_scale_with_the_speed_exactly(model, chip):
    graph = model(
        "g (float[64,256] x, float[256,64] w) => (float[64,64] y) { a = MatMul(x, w) y = Erf(a) }"
    ).graph
    slow = replace(chip, speed=0.3)
    whole = cycle_model(chip).group_cost(list(graph))
    assert cycle_model(slow).group_cost(list(graph)).seconds == whole.seconds / 0.3
    assert copy_seconds(slow, 1000) == copy_seconds(chip, 1000) / 0.3
    assert launch_seconds(slow, 1.0) == chip.launch_s / 0.3


def test_bodies_of_loops_scale_with_the_speed_too(model, chip):
    graph = model(
        "g (float[64] x, int64 n, bool c) => (float[64] y)"
        "{ y = Loop (n, c, x) <body = b (int64 i, bool p, float[64] s) => (bool q, float[64] t)"
        "{ q = Identity(p) t = Exp(s) }> }"
    ).graph
    (node,) = graph
    reference = cycle_model(chip).node_cost(node).seconds
    assert cycle_model(replace(chip, speed=0.3)).node_cost(node).seconds == reference / 0.3


def test_what_does_not_run_is_not_launched(chip):
    node = ir.Node("", "Constant", [], [ir.AttrInt64("value_int", 3)])
    seconds = cycle_model(chip).node_cost(node).seconds
    assert launch_seconds(chip, seconds) == seconds == 0.0
