from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_hardware.chip.kernel_work import formula_work, is_view
from mcm_hardware.op_costs.formula_table import FORMULA_TABLE
from mcm_hardware.op_costs.work import CONTROL_FLOW, POWER, Gemm
from mcm_models.zoo.image_networks import ResNet50

ALL_OPS = sorted(
    {
        (schema.domain, schema.name)
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain in ("", "ai.onnx.ml", "ai.onnx.preview")
    }
)


@pytest.mark.parametrize(("domain", "op_type"), ALL_OPS)
def test_every_standard_op_is_modelled_and_costs_without_shapes(roofline, domain, op_type):
    assert (domain, op_type) in FORMULA_TABLE or (domain, op_type) in CONTROL_FLOW
    inputs = [ir.Value(name=f"x{i}") for i in range(6)]
    cost = roofline.node_cost(ir.Node(domain, op_type, inputs, num_outputs=3))
    assert cost.modelled
    assert 0 <= cost.flops < 1e4
    assert 0 <= cost.seconds < 1e-6


def test_views_are_those_whose_formula_says_so():
    views: list[tuple[str, str]] = []
    for domain, op_type in FORMULA_TABLE:
        node = ir.Node(domain, op_type, [ir.Value(name=f"x{i}") for i in range(6)], num_outputs=3)
        assert is_view(node) == (formula_work(node).execution == "view")
        if is_view(node):
            views.append((domain, op_type))
    assert ("", "Reshape") in views
    assert ("", "Transpose") not in views


ODD_SHAPES = [(), (0,), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (1,) * 7]


@pytest.mark.parametrize(("domain", "op_type"), sorted(FORMULA_TABLE))
def test_no_formula_fails_on_odd_shapes(roofline, domain, op_type):
    def value(name, dims):
        return ir.Value(name=name, shape=ir.Shape(dims), type=ir.TensorType(ir.DataType.FLOAT))

    for dims in ODD_SHAPES:
        inputs = [value(f"x{i}", dims) for i in range(10)]
        outputs = [value("y0", dims), value("y1", dims)]
        cost = roofline.node_cost(ir.Node(domain, op_type, inputs, outputs=outputs))
        assert min(cost.flops, cost.read_bytes, cost.write_bytes, cost.seconds) >= 0


MICROSOFT = (
    "Attention", "MultiHeadAttention", "SkipLayerNormalization", "EmbedLayerNormalization",
    "BiasGelu", "FastGelu", "Gelu", "FusedMatMul", "FusedConv", "FusedGemm", "QAttention",
    "QLinearAdd", "QLinearMul", "QLinearConv", "QLinearSigmoid", "QLinearGlobalAveragePool",
    "QLinearConcat", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulIntegerToFloat",
    "MatMulNBits", "RotaryEmbedding", "GroupQueryAttention", "SkipSimplifiedLayerNormalization",
    "QuickGelu", "MoE",
)  # fmt: skip


@pytest.mark.parametrize("op_type", MICROSOFT)
def test_common_microsoft_ops_are_modelled(op_type):
    assert ("com.microsoft", op_type) in FORMULA_TABLE


def only_work(model, text, opset=21):
    (node,) = model(text, opset).graph
    return formula_work(node)


@pytest.mark.parametrize(
    ("inputs", "result", "expected"),
    [
        ("float[8,128,96] a, float[96,65] b", "float[8,128,65]", Gemm(1, 1024, 65, 96)),
        ("float[4,8,16,32] a, float[4,8,32,24] b", "float[4,8,16,24]", Gemm(32, 16, 24, 32)),
        ("float[4,1,16,32] a, float[8,32,24] b", "float[4,8,16,24]", Gemm(32, 16, 24, 32)),
        ("float[16,32] a, float[8,32,24] b", "float[8,16,24]", Gemm(1, 16, 192, 32)),
        ("float[32] a, float[32] b", "float", Gemm(1, 1, 1, 32)),
    ],
)
def test_matmul(model, inputs, result, expected):
    work = only_work(model, f"g ({inputs}) => ({result} y) {{ y = MatMul(a, b) }}")
    assert work.gemms == (expected,)


def test_gemm_transposes_and_adds_the_bias(model):
    work = only_work(
        model,
        "g (float[10,3] a, float[7,10] b, float[7] c) => (float[3,7] y)"
        "{ y = Gemm<transA=1, transB=1>(a, b, c) }",
    )
    assert work.gemms == (Gemm(1, 3, 7, 10),)
    assert work.lane_ops == 21


def test_convolution_of_resnet50_has_118_million_macs(model, roofline):
    # conv1 of ResNet-50: 7 x 7 x 3 windows, 64 channels, 112 x 112 pixels.
    (node,) = model(
        "g (float[1,3,224,224] x, float[64,3,7,7] w) => (float[1,64,112,112] y)"
        "{ y = Conv<pads=[3,3,3,3], strides=[2,2]>(x, w) }"
    ).graph
    assert formula_work(node).gemms == (Gemm(1, 12544, 64, 147),)
    assert roofline.node_cost(node).flops == 2 * 118_013_952


def test_grouped_convolution_is_one_product_per_group(model):
    work = only_work(
        model,
        "g (float[2,32,8,8] x, float[32,1,3,3] w, float[32] b) => (float[2,32,8,8] y)"
        "{ y = Conv<group=32, pads=[1,1,1,1]>(x, w, b) }",
    )
    assert work.gemms == (Gemm(32, 128, 1, 9),)
    assert work.lane_ops == 2 * 32 * 64


def test_transposed_convolution_counts_input_pixels(model):
    work = only_work(
        model,
        "g (float[1,6,5,5] x, float[6,4,2,2] w) => (float[1,4,10,10] y)"
        "{ y = ConvTranspose<strides=[2,2]>(x, w) }",
    )
    assert work.gemms == (Gemm(1, 25, 16, 6),)
    assert work.lane_ops == 25 * 16


def test_quantised_convolution_has_its_weights_at_input_3(model):
    work = only_work(
        model,
        "g (uint8[1,3,8,8] x, float s, uint8 z, uint8[4,3,1,1] w, float t, uint8 u, float v,"
        " uint8 o) => (uint8[1,4,8,8] y) { y = QLinearConv(x, s, z, w, t, u, v, o) }",
    )
    assert work.gemms == (Gemm(1, 64, 4, 3),)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("bhid,bhjd->bhij", ((2, 3, 5, 7), (2, 3, 11, 7)), Gemm(6, 5, 11, 7)),
        ("ij,jk", ((4, 5), (5, 6)), Gemm(1, 4, 6, 5)),
        ("...ij,...jk->...ik", ((2, 4, 5), (2, 5, 6)), Gemm(2, 4, 6, 5)),
        ("nd,nde->ne", ((3, 4), (3, 4, 5)), Gemm(3, 1, 5, 4)),
    ],
)
def test_einsum_is_a_batched_product(equation, shapes, expected):
    work = formula_work(einsum(equation, shapes))
    assert work.gemms == (expected,)


def test_einsum_without_reuse_runs_on_the_vector_unit():
    work = formula_work(einsum("ij,ij->ij", ((4, 5), (4, 5))))
    assert (work.gemms, work.lane_ops) == ((), 20)


def test_einsum_of_three_operands_goes_from_the_left():
    work = formula_work(einsum("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))))
    assert work.gemms == (Gemm(1, 2, 4, 3), Gemm(1, 2, 5, 4))


def einsum(equation, shapes):
    inputs = [
        ir.Value(name=f"x{i}", shape=ir.Shape(s), type=ir.TensorType(ir.DataType.FLOAT))
        for i, s in enumerate(shapes)
    ]
    return ir.Node("", "Einsum", inputs, [ir.AttrString("equation", equation)])


def test_lstm_projects_inputs_at_once_and_steps_through_time(model):
    work = only_work(
        model,
        "g (float[35,2,100] x, float[1,800,100] w, float[1,800,200] r) => (float[35,1,2,200] y)"
        "{ y = LSTM<hidden_size=200>(x, w, r) }",
    )
    assert work.gemms == (Gemm(1, 70, 800, 100), Gemm(35, 2, 800, 200, rounds=35))
    assert dict(work.reads) == {2: 35 * 800 * 200}


def test_square_is_one_multiplication(model):
    text = "g (float[10] x) => (float[10] y) <float e = {%s}> { y = Pow(x, e) }"
    assert only_work(model, text % "2.0").lane_ops == 10
    assert only_work(model, text % "2.7").lane_ops == 10 * POWER


def test_gather_reads_rows_and_not_the_table(model, roofline):
    (node,) = model(
        "g (float[30522,1024] t, int64[1,128] i) => (float[1,128,1024] y) { y = Gather(t, i) }"
    ).graph
    cost = roofline.node_cost(node)
    rows = 128 * 1024 * 2
    assert (cost.read_bytes, cost.write_bytes) == (rows + 128 * 4, rows)
    assert cost.bound_by == "memory"


@pytest.mark.parametrize("op", ["Reshape(x, s)", "Flatten(x)", "Unsqueeze(x, a)", "Squeeze(x)"])
def test_views_cost_nothing(model, roofline, op):
    (node,) = model(
        f"g (float[4,8] x) => (float[N] y) <int64[1] s = {{32}}, int64[1] a = {{0}}>{{ y = {op} }}"
    ).graph
    cost = roofline.node_cost(node)
    assert (cost.flops, cost.read_bytes, cost.write_bytes, cost.seconds) == (0, 0, 0, 0)
    assert cost.bound_by == "none"


def test_identity_costs_a_copy(model, roofline, chip):
    (node,) = model("g (float[1000] x) => (float[1000] y) { y = Identity(x) }").graph
    cost = roofline.node_cost(node)
    assert (cost.read_bytes, cost.write_bytes, cost.bound_by) == (2000, 2000, "memory")
    assert cost.seconds == pytest.approx(chip.launch_s + 4000 / 256e9)


def test_multi_head_attention_with_past(model):
    x = [
        ir.Value(name=f"x{i}", shape=ir.Shape(s), type=ir.TensorType(ir.DataType.FLOAT))
        for i, s in enumerate([(2, 5, 64), (2, 7, 64), (2, 7, 64), (2, 4, 3, 16)])
    ]
    node = ir.Node(
        "com.microsoft", "MultiHeadAttention",
        [x[0], x[1], x[2], None, None, None, x[3]], [ir.AttrInt64("num_heads", 4)],
    )  # fmt: skip
    assert formula_work(node).gemms == (Gemm(8, 5, 10, 16), Gemm(8, 5, 16, 10, inner=True))


def test_fused_attention_projects_queries_keys_and_values():
    x = [
        ir.Value(name=f"x{i}", shape=ir.Shape(s), type=ir.TensorType(ir.DataType.FLOAT))
        for i, s in enumerate([(2, 5, 64), (64, 192), (192,)])
    ]
    node = ir.Node("com.microsoft", "Attention", x, [ir.AttrInt64("num_heads", 4)])
    assert formula_work(node).gemms == (
        Gemm(1, 10, 192, 64), Gemm(8, 5, 5, 16), Gemm(8, 5, 16, 5, inner=True)
    )  # fmt: skip


def test_grouped_query_attention_with_packed_operands():
    x = ir.Value(name="x", shape=ir.Shape((1, 3, 128)), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.Node(
        "com.microsoft", "GroupQueryAttention", [x],
        [ir.AttrInt64("num_heads", 4), ir.AttrInt64("kv_num_heads", 2)],
    )  # fmt: skip
    assert formula_work(node).gemms == (Gemm(4, 3, 3, 16), Gemm(4, 3, 16, 3, inner=True))


def test_trees_are_walked_to_the_leaf():
    x = ir.Value(name="x", shape=ir.Shape((10, 4)), type=ir.TensorType(ir.DataType.FLOAT))
    ids = [0] * 7 + [1] * 7
    node = ir.Node(
        "ai.onnx.ml", "TreeEnsembleRegressor", [x], [ir.AttrInt64s("nodes_treeids", ids)]
    )
    assert formula_work(node).lane_ops == 3 * 10 * 2 * 3


@pytest.mark.parametrize(("trips", "times"), [("{5}", 5), ("{9223372036854775807}", 1)])
def test_loop_costs_its_body_per_trip(model, roofline, chip, trips, times):
    graph = model(
        f"g (float[64,64] x) => (float[64,64] y) <int64 n = {trips}, bool c = {{1}}> {{"
        " y = Loop (n, c, x) <body = b (int64 i, bool go, float[64,64] s)"
        " => (bool go2, float[64,64] t) { go2 = Identity(go) t = MatMul(s, s) }> }"
    ).graph
    (node,) = graph
    cost = roofline.node_cost(node)
    assert cost.flops == times * 2 * 64**3
    body = sum(roofline.node_cost(inner).seconds for inner in node.attributes["body"].as_graph())
    assert cost.seconds == pytest.approx(chip.launch_s + times * body)


def test_if_costs_its_dearer_branch(model, roofline):
    (node,) = model(
        "g (bool c, float[64,64] x) => (float[64,64] y) {"
        " y = If (c) <then_branch = t () => (float[64,64] p) { p = MatMul(x, x) },"
        " else_branch = e () => (float[64,64] q) { q = Relu(x) }> }"
    ).graph
    assert roofline.node_cost(node).flops == 2 * 64**3


def test_scan_runs_once_per_element(model, roofline):
    (node,) = model(
        "g (float[4] h, float[9,4] xs) => (float[4] hn, float[9,4] ys) {"
        " hn, ys = Scan <num_scan_inputs = 1, body = b (float[4] s, float[4] x)"
        " => (float[4] s2, float[4] o) { s2 = Add(s, x) o = Identity(s2) }> (h, xs) }"
    ).graph
    assert roofline.node_cost(node).flops == 9 * 4


def test_unknown_ops_count_their_bytes(roofline):
    x = ir.Value(name="x", shape=ir.Shape((100,)), type=ir.TensorType(ir.DataType.INT8))
    node = ir.Node("acme", "Frobnicate", [x])
    node.outputs[0].shape, node.outputs[0].type = x.shape, x.type
    cost = roofline.node_cost(node)
    assert not cost.modelled
    assert (cost.read_bytes, cost.write_bytes, cost.flops) == (100, 100, 0)


def test_huge_declared_shapes_do_not_overflow(roofline):
    x = ir.Value(name="x", shape=ir.Shape((2**62, 2**62)), type=ir.TensorType(ir.DataType.FLOAT))
    cost = roofline.node_cost(ir.Node("", "MatMul", [x, x]))
    assert np.isfinite(cost.seconds)


def test_resnet50_has_4_09_billion_macs(roofline):
    shapes = onnx.shape_inference.infer_shapes(
        ir.serde.serialize_model(ResNet50(shape_only=True).build()), data_prop=True
    )
    graph = ir.serde.deserialize_model(shapes).graph
    macs = sum(gemm.macs for node in graph for gemm in formula_work(node).gemms)
    # He et al. 2016 count 3.8 billion; with the stride in the 3 x 3 convolution it is 4.09.
    assert macs == pytest.approx(4.09e9, rel=1e-3)
