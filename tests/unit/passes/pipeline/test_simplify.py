"""`simplify` makes graphs smaller and leaves every bit of their outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.graph.invariants import check_invariants
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_passes.pipeline.preparing import Simplify
from mcm_passes.rewriting.simplification import constant_folding
from tools.update_goldens import parse_filled

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def context() -> PassContext:
    # The pass asks nothing of its target.
    return PassContext(None, None, None, report=lambda _: None)  # pyright: ignore


def simplified(source: str | ir.Model, step: Simplify | None = None) -> tuple[ir.Model, ir.Model]:
    """The imported model, before and after the pass."""
    given = ir.from_proto(parse_filled(source)) if isinstance(source, str) else source
    before, _ = import_model(given, "test")
    after, _ = import_model(given, "test")
    (step or Simplify()).run(after, context())
    assert check_invariants(after) == []
    return before, after


def assert_same_outputs(before: ir.Model, after: ir.Model, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in before.graph.inputs:
        shape = value.shape.numpy()
        if value.dtype.is_floating_point():
            feeds[value.name] = rng.standard_normal(shape).astype(value.dtype.numpy())
        else:
            feeds[value.name] = rng.integers(0, 2, shape).astype(value.dtype.numpy())
    assert [v.name for v in before.graph.inputs] == [v.name for v in after.graph.inputs]
    assert [v.name for v in before.graph.outputs] == [v.name for v in after.graph.outputs]
    expected = run_model(ir.to_proto(before), feeds)
    actual = run_model(ir.to_proto(after), feeds)
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        assert same_bits(array, actual[name]), name


def op_types(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_identity_chain_and_inference_dropout_go() -> None:
    before, after = simplified(
        HEAD
        + """m (float[2,3] x) => (float[2,3] y) <bool off = {0}, float ratio = {0.5}> {
            a = Identity (x)  b = Identity (a)  c = Dropout (b, ratio, off)  y = Relu (c) }"""
    )
    assert op_types(after) == ["Relu"]
    assert_same_outputs(before, after)


def test_dropout_stays_where_its_mask_is_read_or_it_trains() -> None:
    _, after = simplified(
        HEAD
        + """m (float[2,3] x) => (float[2,3] y, bool[2,3] mask, float[2,3] z)
            <bool on = {1}, float ratio = {0.5}> {
            y, mask = Dropout (x)  t = Dropout (x, ratio, on)  z = Relu (t) }"""
    )
    assert op_types(after) == ["Dropout", "Dropout", "Relu"]


def test_identity_between_an_input_and_an_output_stays() -> None:
    before, after = simplified(HEAD + "m (float[2] x) => (float[2] y) { y = Identity (x) }")
    assert op_types(after) == ["Identity"]
    assert_same_outputs(before, after)


def test_two_outputs_of_the_same_value_keep_both_names() -> None:
    before, after = simplified(
        HEAD
        + """m (float[2] x) => (float[2] a, float[2] b, float[2] c) {
            a = Sin (x)  b = Identity (a)  c = Identity (b) }"""
    )
    assert_same_outputs(before, after)


def test_identity_at_an_output_hands_its_name_on() -> None:
    before, after = simplified(
        HEAD
        + """m (float[2] x) => (float[2] y, float[2] z) {
            s = Sin (x)  y = Identity (s)  z = Cos (s) }"""
    )
    assert op_types(after) == ["Sin", "Cos"]
    assert_same_outputs(before, after)


def test_a_value_that_a_subgraph_reads_is_not_renamed() -> None:
    text = (
        HEAD
        + """m (float[2] x, bool c) => (float[2] y) {
            copied = Identity (x)
            y = If (c) <then_branch = t () => (float[2] r) { r = Neg (copied) },
                        else_branch = e () => (float[2] q) { x_2 = Abs (copied)
                                                             q = Neg (x_2) }> }"""
    )
    before, after = simplified(text)
    assert "Identity" in op_types(after)
    assert_same_outputs(before, after)


def test_sixteen_bit_identity_stays() -> None:
    _, after = simplified(
        HEAD + "m (float16[2] x) => (float16[2] y) { a = Sin (x) b = Identity (a) y = Cos (b) }"
    )
    assert op_types(after) == ["Sin", "Identity", "Cos"]


TRAINED = """m (float[2,3,4] x) => (float[2,3,4] y)
    <float[3] scale = {1,1,1}, float[3] bias = {0,0,0}, float[3] mean = {0,0,0}> { BODY
    n, mean2, var2 = BatchNormalization <training_mode = 1> (x, scale, bias, MEAN, VAR)
    y = Relu (n) }"""


@pytest.mark.parametrize(
    ("body", "mean", "variance"),
    [
        ("var = Constant <value = float[3] {1,1,1}> ()", "mean", "var"),
        ("m = Identity (bias) var = Identity (scale)", "m", "var"),
        ("m = Neg (x0) var = Constant <value = float[3] {1,1,1}> ()", "m", "var"),
    ],
)
def test_what_a_normalisation_in_training_writes_over_is_no_other_weight(
    body: str, mean: str, variance: str
) -> None:
    text = TRAINED.replace("BODY", body).replace("MEAN", mean).replace("VAR", variance)
    if "x0" in body:  # the bias is the same op on the same input
        text = text.replace("float[2,3,4] x)", "float[2,3,4] x, float[3] x0)")
        text = text.replace("bias, m,", "b, m,").replace("m = Neg", "b = Neg (x0) m = Neg")
    before, after = simplified(HEAD + text)
    assert_same_outputs(before, after)


def test_dead_nodes_and_weights_go_but_unread_inputs_stay() -> None:
    before, after = simplified(
        HEAD
        + """m (float[2] x, float[2] unread) => (float[2] y) <float[2] w = {1, 2}> {
            a = Exp (x)  b = Add (a, w)  y = Relu (x) }"""
    )
    assert op_types(after) == ["Relu"]
    assert not after.graph.initializers
    assert_same_outputs(before, after)


def test_unused_optional_output_of_max_pool_keeps_its_kernel() -> None:
    # Without the second output onnxruntime takes a kernel that treats NaN differently.
    before, after = simplified(
        HEAD
        + """m (float[1,1,6,6] x) => (float[1,1,4,4] y) {
            y, i = MaxPool <kernel_shape = [3,3]> (x) }"""
    )
    feeds = {"x": np.full((1, 1, 6, 6), 1.0, np.float32)}
    feeds["x"][0, 0, ::3, ::2] = np.nan
    (expected,) = run_model(ir.to_proto(before), feeds, ["y"]).values()
    (actual,) = run_model(ir.to_proto(after), feeds, ["y"]).values()
    assert np.array_equal(np.isnan(expected), np.isnan(actual))
    assert len(after.graph[0].outputs) == 2


def test_equal_ops_merge_but_random_ones_do_not() -> None:
    before, after = simplified(
        HEAD
        + """m (float[2] x) => (float[2] y, float[2] z) {
            a = Sin (x)  b = Sin (x)  y = Add (a, b)
            r = RandomNormalLike (x)  s = RandomNormalLike (x)  z = Sub (r, s) }"""
    )
    assert op_types(after) == ["Sin", "Add", "RandomNormalLike", "RandomNormalLike", "Sub"]
    feeds = {"x": np.array([0.5, 2], np.float32)}
    assert run_model(ir.to_proto(after), feeds)["z"].any()
    (expected,) = run_model(ir.to_proto(before), feeds, ["y"]).values()
    assert same_bits(expected, run_model(ir.to_proto(after), feeds)["y"])


@pytest.mark.parametrize("pair", [("0.0", "-0.0"), ("1.0", "1.5")])
def test_ops_that_differ_in_an_attribute_do_not_merge(pair: tuple[str, str]) -> None:
    a, b = pair
    before, after = simplified(
        HEAD
        + f"""m (float[4] x) => (float[4] y) {{
            a = LeakyRelu <alpha = {a}> (x)  b = LeakyRelu <alpha = {b}> (x)  y = Atan (a)
            }}""".replace("y = Atan (a)", "c = Reciprocal (a) d = Reciprocal (b) y = Sub (c, d)")
    )
    assert op_types(after).count("LeakyRelu") == 2
    assert_same_outputs(before, after)


def test_an_unnamed_optional_output_does_not_stand_for_a_read_one() -> None:
    before, after = simplified(
        HEAD
        + """m (float[1,1,4,4] x) => (float[1,1,2,2] y, int64[1,1,2,2] i) {
            y = MaxPool <kernel_shape = [3,3]> (x)
            v, w = MaxPool <kernel_shape = [3,3]> (x)
            i = Neg (w) }"""
    )
    assert op_types(after).count("MaxPool") == 2
    assert_same_outputs(before, after)


def test_constants_fold_in_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    run = constant_folding.run_model

    def counted(proto, feeds):
        calls.append(len(proto.graph.node))
        return run(proto, feeds)

    monkeypatch.setattr(constant_folding, "run_model", counted)
    chain = "\n".join(f"c{i + 1} = Sin (c{i})" for i in range(300))
    before, after = simplified(
        HEAD + f"m (float[3] x) => (float[3] y) <float[3] c0> {{ {chain}\n y = Mul (x, c300) }}"
    )
    assert calls == [300]
    assert op_types(after) == ["Mul"]
    assert list(after.graph.initializers) == ["c300"]
    assert_same_outputs(before, after)


def test_what_onnxruntime_refuses_stays_and_the_rest_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    run = constant_folding.run_model

    def refusing(proto, feeds):
        if any(node.op_type == "Cosh" for node in proto.graph.node):
            from mcm_compiler.diagnostics import Diagnostic

            raise CompileError(Diagnostic("MCM-V001", "refused"))
        return run(proto, feeds)

    monkeypatch.setattr(constant_folding, "run_model", refusing)
    before, after = simplified(
        HEAD
        + """m (float[3] x) => (float[3] y) <float[3] w> {
            a = Sin (w)  b = Cosh (a)  c = Cos (b)  d = Tan (a)  e = Mul (c, d)  y = Mul (x, e) }"""
    )
    assert op_types(after) == ["Cosh", "Cos", "Mul", "Mul"]
    assert_same_outputs(before, after)


def test_large_weights_are_neither_copied_nor_read() -> None:
    def unread() -> ir.Tensor:
        raise AssertionError("the weight was read")

    def lazy(name: str) -> ir.Value:
        shape = ir.Shape([1024, 512])
        return ir.Value(
            name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=shape,
            const_value=ir.LazyTensor(unread, ir.DataType.FLOAT, shape, name=name),
        )  # fmt: skip

    text = """m (float[2,512] x) => (float[2,1024] y, float[2,1024] z) {
        t = Transpose <perm = [1,0]> (w)  y = MatMul (x, t)
        u = Transpose <perm = [1,0]> (v)  z = MatMul (x, u)
        }"""
    model, _ = import_model(
        ir.from_proto(
            parse_filled(HEAD + text.replace("m (", "m (float[1024,512] w, float[1024,512] v, "))
        ),
        "test",
    )
    for value in list(model.graph.inputs)[:2]:
        new = lazy(value.name or "")
        value.replace_all_uses_with(new)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(new)
    Simplify().run(model, context())
    assert op_types(model) == ["Transpose", "MatMul", "Transpose", "MatMul"]
    assert list(model.graph.initializers) == ["w", "v"]


def test_large_external_weights_merge_by_their_place(tmp_path: Path) -> None:
    def external(name: str, offset: int) -> ir.Value:
        shape = ir.Shape([1 << 19])
        tensor = ir.ExternalTensor(
            "missing.data", offset, 1 << 21, ir.DataType.FLOAT, shape=shape, name=name,
            base_dir=tmp_path,
        )  # fmt: skip
        return ir.Value(
            name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=shape, const_value=tensor
        )

    weights = [external("a", 0), external("b", 0), external("c", 1 << 21)]
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1 << 19]))
    nodes = [ir.node("Add", [x, w], name=f"add_{w.name}") for w in weights]
    for node in nodes:
        node.outputs[0].name = f"{node.name}_out"
    total = ir.node("Sum", [node.outputs[0] for node in nodes], name="sum")
    total.outputs[0].name = "y"
    graph = ir.Graph(
        [x], [total.outputs[0]], nodes=[*nodes, total], initializers=weights,
        opset_imports={"": 17}, name="g",
    )  # fmt: skip
    model = ir.Model(graph, ir_version=8)
    Simplify().run(model, context())
    assert list(model.graph.initializers) == ["a", "c"]
    assert op_types(model) == ["Add", "Add", "Sum"]


def test_folding_does_not_inflate_weights() -> None:
    _, after = simplified(
        HEAD
        + """m (float[512,300] x) => (float[512,300] y, float[2,300] z)
            <float[1,300] w, float[2,300] v> {
            extents = Constant <value = int64[2] {512, 300}> ()
            wide = Expand (w, extents)  y = Add (x, wide)
            n = Neg (v)  top = Constant <value = int64[1] {2}> ()
            zero = Constant <value = int64[1] {0}> ()
            s = Slice (x, zero, top, zero)  z = Add (s, n) }"""
    )
    assert "Expand" in op_types(after)
    assert "Neg" not in op_types(after)


def test_another_shape_of_a_weight_that_is_read_in_its_own_too_stays_a_view() -> None:
    _, after = simplified(
        HEAD
        + """m (float[512,300] x, float[300,512] v) => (float[512,300] y, float[300,512] z)
            <float[512,300] w, int64[2] s = {300, 512}> {
            y = Add (x, w)  r = Reshape (w, s)  z = Add (v, r) }"""
    )
    assert "Reshape" in op_types(after)


def test_a_small_quantised_weight_stays_packed_and_a_scalar_folds() -> None:
    before, after = simplified(
        HEAD
        + """g (float[2,8] x) => (float[2,8] y)
        <int8[8] q = {1, 2, 3, 4, 5, 6, 7, 8}, float s = {0.5}, int8 one = {3}>
        { d = DequantizeLinear(q, s) f = DequantizeLinear(one, s) z = Mul(x, d) y = Add(z, f) }"""
    )
    assert op_types(after) == ["DequantizeLinear", "Mul", "Add"]
    assert_same_outputs(before, after)


def test_constant_weights_of_products_keep_their_kind() -> None:
    # onnxruntime packs initializers for products and then sums in another order.
    _, after = simplified(
        HEAD
        + """m (float[2,8] x) => (float[2,8] y, float[2,8] z) <float[8,8] w> {
            t = Transpose <perm = [1,0]> (w)  y = MatMul (x, t)  z = Add (x, x)}"""
    )
    assert op_types(after) == ["Transpose", "MatMul", "Add"]


def test_a_constant_graph_output_stays_a_node() -> None:
    before, after = simplified(
        HEAD
        + "m (float[2] x) => (float[2] y, float[2] z) <float[2] w> { y = Sin (w) z = Add (x, y) }"
    )
    assert op_types(after) == ["Sin", "Add"]
    assert_same_outputs(before, after)


@pytest.mark.parametrize(
    ("attributes", "expected"), [("", [2, 3, 4]), ("<start = 1>", [3, 4]), ("<end = -1>", [2, 3])]
)
def test_shape_of_a_static_value_folds(attributes: str, expected: list[int]) -> None:
    before, after = simplified(
        HEAD
        + f"""m (float[2,3,4] x) => (int64[{len(expected)}] y, int64 n) {{
            s = Shape {attributes} (x)  y = Neg (s)  k = Size (x)  n = Neg (k) }}"""
    )
    folded = {name: v.const_value.numpy() for name, v in after.graph.initializers.items()}
    assert_same_outputs(before, after)
    assert op_types(after) == ["Neg", "Neg"]
    assert folded["s"].tolist() == expected
    assert folded["k"] == 24


def test_placeholders_of_a_shape_only_model_stay_apart() -> None:
    text = (
        HEAD
        + """m (float[1200] x) => (float[1200] y) {
            e = Constant <value = int64[1] {1200}> ()
            a = ConstantOfShape <value = float[1] {0.5}> (e)
            b = ConstantOfShape <value = float[1] {0.5}> (e)
            c = Add (x, a)  y = Mul (c, b) }"""
    )
    proto = parse_filled(text)
    proto.metadata_props.add(key="mcm.weights", value="shape-only")
    _, after = simplified(ir.from_proto(proto))
    assert op_types(after) == ["ConstantOfShape", "ConstantOfShape", "Add", "Mul"]
    before, after = simplified(text)
    assert op_types(after) == ["Add", "Mul"]
    assert_same_outputs(before, after)


def test_origins_are_kept_and_the_source_is_untouched() -> None:
    text = HEAD + "m (float[2] x) => (float[2] y) { a = Identity (x) [kept] y = Sin (a) }"
    before, after = simplified(text)
    assert [n.metadata_props[ORIGIN_PROPERTY] for n in after.graph] == ["kept"]
    assert op_types(before) == ["Identity", "Sin"]


def test_folding_more_than_one_round_reads_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_folding, "MAX_ROUND_BYTES", 64)
    weights = ", ".join(f"float[12] w{i}" for i in range(4))
    body = " ".join(f"n{i} = Sin (w{i})" for i in range(4))
    before, after = simplified(
        HEAD + f"m (float[12] x) => (float[12] y) <{weights}> {{ {body} y = Sum (x,n0,n1,n2,n3) }}"
    )
    assert op_types(after) == ["Sum"]
    assert_same_outputs(before, after)


def test_options() -> None:
    (step,) = parse_pipeline("simplify{max_fold_bytes=16}")
    assert step == Simplify(max_fold_bytes=16)
    text = HEAD + "m (float[8] x) => (float[8] y) <float[8] w> { a = Sin (w) y = Add (x, a) }"
    assert op_types(simplified(text, step)[1]) == ["Sin", "Add"]
    with pytest.raises(CompileError, match="MCM-U002"):
        parse_pipeline("simplify{max_fold_bytes=-1}")
