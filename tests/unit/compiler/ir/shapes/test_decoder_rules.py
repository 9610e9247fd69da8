"""Shapes of ops for decoders, compared with what onnxruntime computes."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import open_session, run_session
from mcm_compiler.ir.shapes import inference as shapes
from mcm_compiler.ir.shapes.decoder_rules import _RULES

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
GROUPS = "num_heads = 4, kv_num_heads = 2"
LENGTHS = "int32[1] last = {4}, int32 total = {5}"
HEADS = "float[1,1,32] q, float[1,1,16] k, float[1,1,16] v"

CASES = {
    "GroupQueryAttention": (
        f"{HEADS}, float[1,2,4,8] pk, float[1,2,4,8] pv", LENGTHS,
        f"a, b, c = com.microsoft.GroupQueryAttention <{GROUPS}> (q, k, v, pk, pv, last, total)",
    ),
    "GroupQueryAttention, packed": (
        "float[1,1,64] q, float[1,2,4,8] pk, float[1,2,4,8] pv", LENGTHS,
        f"a, b, c = com.microsoft.GroupQueryAttention <{GROUPS}> (q, , , pk, pv, last, total)",
    ),
    "GroupQueryAttention, one buffer": (
        f"{HEADS}, float[1,2,9,8] pk, float[1,2,9,8] pv", LENGTHS,
        f"a, b, c = com.microsoft.GroupQueryAttention <{GROUPS}> (q, k, v, pk, pv, last, total)",
    ),
    "GroupQueryAttention, prompt": (
        "float[1,5,32] q, float[1,5,16] k, float[1,5,16] v", LENGTHS,
        f"a, b, c = com.microsoft.GroupQueryAttention <{GROUPS}> (q, k, v, , , last, total)",
    ),
    "MultiHeadAttention": (
        "float[2,3,8] q, float[2,5,8] k, float[2,5,12] v", "",
        "a = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v)",
    ),
    "MultiHeadAttention, past": (
        "float[2,3,8] q, float[2,3,8] k, float[2,3,8] v, float[2,2,4,4] pk, float[2,2,4,4] pv", "",
        "a, b, c = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , , , pk, pv)",
    ),
    "MultiHeadAttention, keys of an encoder": (
        "float[2,3,8] q, float[2,2,5,4] k, float[2,2,5,4] v", "",
        "a = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v)",
    ),
    "RotaryEmbedding": (
        "float[2,3,8] x, int64[1] p, float[5,2] c, float[5,2] s", "",
        "a = com.microsoft.RotaryEmbedding <num_heads = 2> (x, p, c, s)",
    ),
    "SimplifiedLayerNormalization": (
        "float[2,3,8] x, float[8] g", "",
        "a, b = SimplifiedLayerNormalization <axis = -1> (x, g)",
    ),
    "SkipLayerNormalization": (
        "float[2,3,8] x, float[2,3,8] s, float[8] g", "",
        "a, , , b = com.microsoft.SkipLayerNormalization (x, s, g)",
    ),
    "SkipSimplifiedLayerNormalization": (
        "float[2,3,8] x, float[2,3,8] s, float[8] g", "",
        "a, , , b = com.microsoft.SkipSimplifiedLayerNormalization (x, s, g)",
    ),
    "MatMulNBits": (
        "float[2,3,32] x, uint8[6,1,16] w, float[6,1] s", "",
        "a = com.microsoft.MatMulNBits <K = 32, N = 6, bits = 4, block_size = 32> (x, w, s)",
    ),
    "MatMulBnb4": (
        "float[2,3,32] x, uint8[96] w, float[3] s", "",
        "a = com.microsoft.MatMulBnb4 <K = 32, N = 6, quant_type = 1, block_size = 64> (x, w, s)",
    ),
    "GatherBlockQuantized": (
        "uint8[10,16] w, int64[2,3] i, float[10,1] s", "",
        "a = com.microsoft.GatherBlockQuantized"
        " <gather_axis = 0, quantize_axis = 1, bits = 4, block_size = 32> (w, i, s)",
    ),
    "MoE": (
        "float[6,4] x, float[6,2] p, float[2,8,4] w, float[2,4,8] u", "",
        'a = com.microsoft.MoE <k = 1, activation_type = "relu"> (x, p, w, , u)',
    ),
    "QMoE": (
        "float[6,32] x, float[6,2] p, uint8[2,64,16] w, float[2,64] s, uint8[2,32,32] u,"
        " float[2,32] t", "",
        "a = com.microsoft.QMoE <k = 1, expert_weight_bits = 4> (x, p, w, s, , u, t)",
    ),
}  # fmt: skip


def test_every_rule_is_compared():
    assert {name.partition(",")[0] for name in CASES} == set(_RULES)


@pytest.mark.parametrize("case", CASES)
def test_shapes_and_types_are_those_that_onnxruntime_computes_and_need_no_run(case, monkeypatch):
    inputs, constants, call = CASES[case]
    names = [name.strip() for name in call.partition("=")[0].split(",") if name.strip()]
    outputs = ", ".join(f"float {name}" for name in names)
    text = f"{HEAD} m ({inputs}) => ({outputs}) <{constants}> {{ {call} }}"
    proto = onnx.parser.parse_model(text)
    for output in proto.graph.output:
        output.ClearField("type")
    model = ir.from_proto(proto)
    results = run_session(open_session(proto), random_inputs(model, 0), names)
    monkeypatch.setattr(shapes.FileRuns, "observe", None)
    shapes.infer_shapes(model)
    for value in model.graph.outputs:
        assert value.dtype.numpy() == results[value.name].dtype
        assert value.shape == ir.Shape(results[value.name].shape)


@pytest.mark.parametrize(("past", "present"), [(127, 128), (256, 256)])
def test_a_total_length_from_the_shape_of_a_mask_decides_the_present(past, present):
    proto = onnx.parser.parse_model(
        f"{HEAD} m (float[1,1,64] x, int64[1,128] mask, float[1,2,{past},8] pk,"
        f" float[1,2,{past},8] pv) => (float[A,B,C] y, float[D,E,F,G] nk, float[H,I,J,K] nv)"
        " <int64[1] one = {1}, int64 second = {1}> {"
        " sum = ReduceSum <keepdims = 0> (mask, one) less = Sub (sum, one)"
        " last = Cast <to = 6> (less) sizes = Shape (mask) length = Gather (sizes, second)"
        " total = Cast <to = 6> (length)"
        f" y, nk, nv = com.microsoft.GroupQueryAttention <{GROUPS}>"
        " (x, , , pk, pv, last, total) }"
    )
    model = ir.from_proto(proto)
    notes = shapes.infer_shapes(model)
    assert [list(value.shape.numpy()) for value in model.graph.outputs] == [
        [1, 1, 32], [1, 2, present, 8], [1, 2, present, 8],
    ]  # fmt: skip
    assert "from one run" not in notes[0].message


def test_a_total_length_from_data_leaves_the_present_open():
    proto = onnx.parser.parse_model(
        f"{HEAD} m ({HEADS}, int32 total, float[1,2,4,8] pk, float[1,2,4,8] pv)"
        " => (float[1,1,32] a, float[A,B,C,D] b, float[E,F,G,H] c) <int32[1] last = {4}> {"
        f" a, b, c = com.microsoft.GroupQueryAttention <{GROUPS}> (q, k, v, pk, pv, last, total) }}"
    )
    model = ir.from_proto(proto)
    shapes._infer_with_onnx(model)
    missing = shapes.open_values(model)
    shapes.infer_symbolically(model, missing)
    shape = model.graph.outputs[1].shape
    assert [size if isinstance(size, int) else None for size in shape] == [1, 2, None, 8]


def test_packed_queries_keys_and_values_that_no_cpu_kernel_takes():
    proto = onnx.parser.parse_model(
        f"{HEAD} m (float[2,3,2,3,8] q) => (float[A,B,C] a)"
        " { a = com.microsoft.MultiHeadAttention <num_heads = 2> (q) }"
    )
    model = ir.from_proto(proto)
    shapes.infer_shapes(model)
    assert model.graph.outputs[0].shape == ir.Shape([2, 3, 16])
