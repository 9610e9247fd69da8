"""Weights of a few bits: stored as they are in the file, and unpacked on their way by default."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from mcm_hardware.chip.roofline import cycle_model
from mcm_hardware.tensors.storage_widths import packed_operands
from mcm_models.zoo.llama import Llama

K, N, BLOCK = 256, 512, 32
PACKED = K * N // 2 + K * N // BLOCK * 2
"""Bytes of int4 weights with a scale of 16 bits for each block."""


def qdq(zero_points=False):
    """Weights [N, K] in blocks, dequantised and transposed for a product and a look-up."""
    consts = [("q", TensorProto.INT4, (N, K)), ("s", TensorProto.FLOAT, (N, K // BLOCK))]
    consts += [("z", TensorProto.INT4, (N, K // BLOCK))] if zero_points else []
    scales = [name for name, *_ in consts]
    nodes = [
        helper.make_node("DequantizeLinear", scales, ["d"], axis=-1, block_size=BLOCK),
        helper.make_node("Transpose", ["d"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"], name="product"),
        helper.make_node("Gather", ["d", "i"], ["e"], name="rows"),
    ]
    return _model(nodes, consts, [("y", (1, N)), ("e", (2, K))])


def nbits():
    """The same weights for MatMulNBits and GatherBlockQuantized."""
    consts = [
        ("q", TensorProto.UINT8, (N, K // BLOCK, BLOCK // 2)),
        ("s", TensorProto.FLOAT, (N, K // BLOCK)),
        ("g", TensorProto.UINT8, (N, K // 2)),
    ]
    kind = {"domain": "com.microsoft", "bits": 4, "block_size": BLOCK}
    nodes = [
        helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], name="product", K=K, N=N, **kind),
        helper.make_node("GatherBlockQuantized", ["g", "i", "s"], ["e"], name="rows", **kind),
    ]
    return _model(nodes, consts, [("y", (1, N)), ("e", (2, K))])


def _model(nodes, consts, outputs):
    made = [
        helper.make_node(
            "ConstantOfShape", [f"{name}_n"], [name], value=helper.make_tensor("v", kind, [1], [0])
        )
        for name, kind, _ in consts
    ]
    graph = helper.make_graph(
        [*made, *nodes],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, K)),
            helper.make_tensor_value_info("i", TensorProto.INT64, (2,)),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs],
        [onnx.numpy_helper.from_array(np.array(dims, np.int64), f"{n}_n") for n, _, dims in consts],
        value_info=[
            *(helper.make_tensor_value_info(*const) for const in consts),
            helper.make_tensor_value_info("d", TensorProto.FLOAT, (N, K)),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, (K, N)),
        ],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opsets)).graph


def values_of(graph):
    return {value.name: value for node in graph for value in node.outputs}


def costs_of(chip, unpacking, graph):
    model = cycle_model(replace(chip, storage=replace(chip.storage, unpacking=unpacking)))
    return {node.name: model.node_cost(node) for node in graph if node.name}


def test_a_dequantised_weight_is_stored_as_it_is_in_the_file(chip):
    values, storage = values_of(qdq()), chip.storage
    assert storage.value_bytes(values["t"]) == storage.value_bytes(values["d"]) == PACKED
    with_zeros = values_of(qdq(zero_points=True))
    assert storage.value_bytes(with_zeros["t"]) == PACKED + N * K // BLOCK // 2
    ahead = replace(storage, unpacking="ahead")
    assert ahead.value_bytes(values["t"]) == 2 * K * N
    assert packed_operands(values["y"]) == ()


def test_ahead_holds_weights_unpacked_and_no_scales(chip):
    graph = nbits()
    weights = next(node.inputs for node in graph if node.name == "product")
    ahead = replace(chip.storage, unpacking="ahead")
    assert ahead.value_bytes(weights[1]) == 2 * K * N
    assert ahead.value_bytes(weights[2]) == 0


@pytest.mark.parametrize("unpacking", ["load", "lanes", "ahead"])
def test_a_product_costs_the_same_in_any_spelling(chip, unpacking):
    left, right = (costs_of(chip, unpacking, graph) for graph in (qdq(), nbits()))
    assert left["product"].seconds == pytest.approx(right["product"].seconds, rel=0.05)
    assert left["rows"].seconds == pytest.approx(right["rows"].seconds, rel=0.05)


def test_unpacking_takes_lanes_only_where_the_target_says_so(chip):
    lanes_hz = chip.vector.lanes * chip.vector.clock_hz
    for graph in (qdq(), nbits()):
        load, lanes = (costs_of(chip, how, graph)["product"] for how in ("load", "lanes"))
        assert load.flops == 2 * K * N
        assert lanes.seconds - load.seconds == pytest.approx(2 * K * N / lanes_hz, rel=0.02)
        assert load.weight_bytes == PACKED


def test_a_look_up_reads_rows_with_their_scales(chip):
    for graph in (qdq(), nbits()):
        read = costs_of(chip, "load", graph)["rows"].read_bytes
        assert read == 2 * PACKED // N + 2 * 4  # and two indices of 32 bits


def test_the_weights_of_a_prefill_are_read_again_as_they_are_stored(chip):
    slow = replace(chip, sram_bytes_per_s=1e9)
    for graph in (qdq(), nbits()):
        product = next(node for node in graph if node.name == "product")
        for value, size in ((product.inputs[0], K), (product.outputs[0], N)):
            value.shape = ir.Shape((128, size))
        moved = 2 * PACKED + 2 * 128 * (N + K * (N // 64))
        seconds = cycle_model(slow).node_cost(product).seconds
        assert seconds == pytest.approx(slow.launch_s + moved / 1e9, rel=0.001)


def test_packed_experts_are_as_wide_as_their_rows_say(chip):
    inner, experts = K, 4
    consts = [(name, TensorProto.UINT8, (experts, inner, K // 2)) for name in ("fc1", "fc2")] + [
        (name, TensorProto.FLOAT, (experts, inner, K // BLOCK)) for name in ("s1", "s2")
    ]
    operands = ["x", "r", "fc1", "s1", "", "fc2", "s2"]
    node = helper.make_node(
        "QMoE", operands, ["y"], name="product", domain="com.microsoft", k=4, block_size=BLOCK
    )
    graph = _model([node], consts, [("y", (1, K))])
    load, lanes = (costs_of(chip, how, graph)["product"] for how in ("load", "lanes"))
    assert load.weight_bytes == 2 * experts * (inner * K // 2 + inner * K // BLOCK * 2)
    assert lanes.flops - load.flops == 2 * 2 * experts * inner * K


@pytest.mark.parametrize(("tokens", "active"), [(1, 2), (3, 6), (40, 8)])
@pytest.mark.parametrize("weights", ["float", "nbits"])
def test_a_step_reads_the_experts_of_its_tokens(chip, tokens, active, weights):
    """8 experts, 2 of a token: SwiGLU has 3 matrices, here of 64 x 96, in blocks of 32."""
    sizes = {"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 4, "intermediate": 96, "vocab": 9}
    options = {"experts": 8, "active": 2, "style": "genai", "weights": weights, "seq": tokens}
    model = Llama(**sizes, **options, past=0).build()
    (node,) = (node for node in model.graph if node.op_type in ("MoE", "QMoE"))
    node.outputs[0].shape, node.outputs[0].dtype = ir.Shape((1, tokens, 64)), ir.DataType.FLOAT
    node.inputs[0].shape, node.inputs[0].dtype = node.outputs[0].shape, ir.DataType.FLOAT
    node.inputs[1].shape, node.inputs[1].dtype = ir.Shape((tokens, 8)), ir.DataType.FLOAT
    one = 3 * 64 * 96 * 2 if weights == "float" else 3 * 64 * 96 // 2 + 3 * 64 * 96 // 32 * 2
    moved = active * one + 2 * tokens * 8
    cost = cycle_model(chip).node_cost(node)
    assert cost.weight_bytes == 8 * one
    assert cost.read_bytes == moved + 2 * tokens * 64
    slow = cycle_model(replace(chip, sram_bytes_per_s=1e8)).node_cost(node)
    assert slow.seconds == pytest.approx(active * one / 1e8, rel=0.3 if tokens > 3 else 0.05)
