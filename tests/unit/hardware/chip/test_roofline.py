from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.cost import CostModel
from mcm_hardware.chip.roofline import cycle_model
from mcm_hardware.chip.tile_cycles import pipelined_cycles, streaming_cycles
from mcm_hardware.op_costs.work import Gemm


def test_a_65_wide_product_takes_two_passes(chip):
    assert streaming_cycles(chip.array, Gemm(1, 64, 64, 100)) == 100
    assert streaming_cycles(chip.array, Gemm(1, 64, 65, 100)) == 200
    assert streaming_cycles(chip.array, Gemm(3, 65, 65, 100)) == 1200


def test_fill_and_drain(chip):
    # A lone 64 x 64 tile: SCALE-Sim's 2 * rows + cols + k - 2 cycles.
    assert pipelined_cycles(chip.array, Gemm(1, 64, 64, 100)) == 2 * 64 + 64 + 100 - 2
    # Short dot products wait for 64 rows of results to leave.
    assert pipelined_cycles(chip.array, Gemm(10, 64, 1, 9)) == 9 * 64 + (2 * 64 + 1 + 9 - 2)
    # A recurrent step starts when the one before has drained.
    step = Gemm(5, 1, 64, 100, rounds=5)
    assert pipelined_cycles(chip.array, step) == 5 * (2 * 1 + 64 + 100 - 2)


def test_array_bound_op(model, roofline, chip):
    (node,) = model(
        "g (float[128,1024] x, float[1024,4096] w) => (float[128,4096] y) { y = MatMul(x, w) }"
    ).graph
    cost = roofline.node_cost(node)
    assert cost.bound_by == "array"
    assert cost.seconds == pytest.approx(chip.launch_s + 2 * 64 * 1024 / 500e6)
    assert cost.flops == 2 * 128 * 1024 * 4096
    assert cost.read_bytes == 2 * (128 * 1024 + 1024 * 4096)


def test_vector_bound_op(model, roofline, chip):
    (node,) = model("g (float[1000,128] x) => (float[1000,128] y) { y = Erf(x) }").graph
    cost = roofline.node_cost(node)
    assert cost.bound_by == "vector"
    assert cost.seconds == pytest.approx(chip.launch_s + 15 * 1000 / 500e6)


def test_constant_operands_are_weight_bytes(model, roofline):
    graph = model(
        "g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 2, 3, 4}>"
        "{ t = Transpose(w) y = MatMul(x, t) z = Relu(x) }"
    ).graph
    assert [roofline.node_cost(node).weight_bytes for node in graph] == [8, 8, 0]


def test_a_group_pays_one_launch_and_keeps_tensors_inside(model, roofline, chip):
    graph = model(
        "g (float[64,64] x, float[64,64] w) => (float[64,64] y)"
        "{ a = MatMul(x, w) b = Reshape(a, s) c = Relu(b) y = Add(c, x) }".replace(
            "=> (float[64,64] y)", "=> (float[64,64] y) <int64[2] s = {64, 64}>"
        )
    ).graph
    nodes = list(graph)
    cost = roofline.group_cost(nodes)
    assert cost.read_bytes == 2 * 64 * 64 * 2
    assert cost.write_bytes == 64 * 64 * 2
    assert cost.flops == 2 * 64**3 + 2 * 64 * 64
    assert cost.seconds == pytest.approx(chip.launch_s + max(64 / 500e6, 24576 / 256e9))
    assert cost.seconds < sum(roofline.node_cost(node).seconds for node in nodes)


def test_a_value_read_outside_the_group_is_written(model, roofline):
    graph = model(
        "g (float[100] x) => (float[100] y, float[100] z)"
        "{ a = Relu(x) b = Neg(a) y = Abs(b) z = Exp(a) }"
    ).graph
    cost = roofline.group_cost(list(graph)[:3])
    assert (cost.read_bytes, cost.write_bytes) == (200, 400)


def test_a_view_that_ends_a_group_writes_what_it_shows(model, roofline):
    graph = model(
        "g (float[4,25] x) => (float[100] y) <int64[1] s = {100}>{ a = Relu(x) y = Reshape(a, s) }"
    ).graph
    assert roofline.group_cost(list(graph)).write_bytes == 200


@pytest.mark.parametrize(
    ("dtype", "dims", "expected"),
    [
        (ir.DataType.FLOAT, (3, 5), 30),
        (ir.DataType.FLOAT16, (3, 5), 30),
        (ir.DataType.DOUBLE, (3,), 12),
        (ir.DataType.INT64, (3,), 12),
        (ir.DataType.INT8, (3,), 3),
        (ir.DataType.BOOL, (3,), 3),
        (ir.DataType.INT4, (3,), 2),
        (ir.DataType.UINT2, (5,), 2),
        (ir.DataType.STRING, (2,), 64),
        (ir.DataType.FLOAT, (), 2),
        (ir.DataType.FLOAT, ("batch", 7), 14),
        (ir.DataType.FLOAT, (0, 7), 0),
    ],
)
def test_storage_bytes(roofline, dtype, dims, expected):
    value = ir.Value(name="v", shape=ir.Shape(dims), type=ir.TensorType(dtype))
    assert roofline.storage_bytes(value) == expected


def test_storage_of_unknown_values(roofline):
    assert roofline.storage_bytes(ir.Value(name="v")) == 0
    typed = ir.Value(name="v", type=ir.TensorType(ir.DataType.FLOAT))
    assert roofline.storage_bytes(typed) == 0
    sequence = ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))
    assert roofline.storage_bytes(ir.Value(name="v", shape=ir.Shape((4,)), type=sequence)) == 8


def test_names_and_contract(roofline, chip):
    contract: CostModel = roofline
    assert contract.name == "roofline"
    assert cycle_model(chip).name == "cycles"
