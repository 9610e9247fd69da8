"""`fuse` recognises the patterns of exporters, and nothing that only looks like them."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionPlan
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_compiler.registry import FUSION_RULES
from mcm_passes.pipeline.preparing import Fuse, plan_fusion
from mcm_passes.rewriting.fusion_rules import ONNX_RULES, fusion_rules
from mcm_passes.rewriting.fusion_rules.rule import FusionRule
from tools.update_goldens import parse_filled

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
TWO, HALF, ONE, EPS = (
    f"{name} = Constant <value = float {{{value}}}> ()"
    for name, value in (("two", 2.0), ("half", 0.5), ("one", 1.0), ("eps", 1e-5))
)


def plan_of(text: str, max_group: int = 64, opset: int = 17) -> FusionPlan:
    head = HEAD.replace("17", str(opset))
    model, _ = import_model(ir.from_proto(parse_filled(head + text)), "test")
    return plan_fusion(model.graph, max_group)


def groups(text: str, max_group: int = 64, opset: int = 17) -> list[tuple[str, int]]:
    """Kind and size of each group."""
    return [(g.kind, len(g.nodes)) for g in plan_of(text, max_group, opset).groups]


def unary(body: str, constants: str = "") -> str:
    return f"m (float[2,4,8] x) => (float[2,4,8] y) {{ {constants} {body} }}"


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("h = Mul (x, half) s = Div (x, two) e = Erf (s) a = Add (e, one) y = Mul (h, a)", 5),
        ("s = Mul (x, half) e = Erf (s) a = Add (one, e) g = Mul (a, x) y = Div (g, two)", 5),
        (
            "c = Pow (x, two) k = Mul (c, half) a = Add (x, k) s = Mul (a, half) t = Tanh (s)"
            " o = Add (t, one) h = Mul (x, half) y = Mul (h, o)",
            8,
        ),
        (
            "q = Mul (x, x) c = Mul (x, q) k = Mul (half, c) a = Add (x, k) s = Mul (a, half)"
            " t = Tanh (s) o = Add (one, t) g = Mul (x, o) y = Mul (g, half)",
            9,
        ),
    ],
)
def test_gelu(body: str, size: int) -> None:
    assert groups(unary(body, TWO + HALF + ONE)) == [("gelu", size)]


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("s = Sigmoid (x) y = Mul (x, s)", 2),
        ("k = Mul (x, two) s = Sigmoid (k) y = Mul (s, x)", 3),
        ("s = HardSigmoid (x) y = Mul (x, s)", 2),
        ("a = Add (x, two) c = Clip (a, half, one) g = Mul (x, c) y = Div (g, two)", 4),
        ("s = Softplus (x) t = Tanh (s) y = Mul (x, t)", 3),
    ],
)
def test_swish_and_kin(body: str, size: int) -> None:
    assert groups(unary(body, TWO + HALF + ONE)) == [("swish", size)]


def test_a_gate_from_elsewhere_is_no_swish() -> None:
    text = "m (float[2] x, float[2] g) => (float[2] y) { s = Sigmoid (g) y = Mul (x, s) }"
    assert groups(text) == [("elementwise", 2)]


@pytest.mark.parametrize(
    ("square", "tail"),
    [
        ("s = Pow (d, two)", "n = Div (d, r) g = Mul (n, w) y = Add (g, b)"),
        ("s = Mul (d, d)", "i = Reciprocal (r) n = Mul (d, i) g = Mul (n, w) y = Add (g, b)"),
        (
            "s = Mul (d, d)",
            "i = Reciprocal (r) k = Mul (i, w) p = Mul (x, k) q = Mul (m, k) z = Sub (b, q)"
            " y = Add (p, z)",
        ),
    ],
)
def test_layer_norm(square: str, tail: str) -> None:
    body = (
        f"{TWO} {EPS} m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) {square}"
        f" v = ReduceMean <axes = [-1]> (s) a = Add (v, eps) r = Sqrt (a) {tail}"
    )
    text = f"m (float[2,8] x) => (float[2,8] y) <float[8] w, float[8] b> {{ {body} }}"
    ops = body.count("=") - body.count("axes =") - 2 * body.count("Constant")
    assert groups(text) == [("layer_norm", ops)]


def test_a_layer_norm_whose_mean_is_read_elsewhere_is_not_taken_whole() -> None:
    text = f"""m (float[2,8] x) => (float[2,8] y, float[2,1] z) {{
        {TWO} {EPS} m = ReduceMean <axes = [-1]> (x)  z = Ceil (m)  d = Sub (x, m)
        s = Pow (d, two)  v = ReduceMean <axes = [-1]> (s)  a = Add (v, eps)  r = Sqrt (a)
        y = Div (d, r) }}"""
    assert ("layer_norm", 7) not in groups(text)
    assert all("ReduceMean_1" not in group.nodes for group in plan_of(text).groups)


def test_a_mean_of_scaled_values_is_no_rms_norm() -> None:
    text = unary(
        "s = Mul (x, two) m = ReduceMean <axes = [-1]> (s) a = Add (m, eps) r = Sqrt (a)"
        " y = Div (x, r)",
        TWO + EPS,
    )
    assert "rms_norm" not in [kind for kind, _ in groups(text)]


@pytest.mark.parametrize(
    ("middle", "size"),
    [
        ("p = Softmax <axis = -1> (s)", 3),
        ("c = Mul (s, scale) a = Add (mask, c) p = Softmax <axis = -1> (a)", 5),
        ("c = Div (s, scale) a = Where (on, c, scale) p = Softmax <axis = -1> (a)", 5),
        ("a = Add (s, mask) f = Softmax (a) n = IsNaN (f) p = Where (n, scale, f)", 6),
        ("f = Softmax (s) p = Dropout (f)", 4),
        ("a = Add (s, mask) e = Exp (a) t = ReduceSum (e, last) p = Div (e, t)", 6),
        (
            "g = ReduceMax <axes = [-1]> (s) d = Sub (s, g) e = Exp (d) t = ReduceSum (e, last)"
            " p = Div (e, t)",
            7,
        ),
    ],
)
def test_attention(middle: str, size: int) -> None:
    text = f"""m (float[2,4,8] q, float[2,8,4] k, float[2,4,8] v, float[2,4,4] mask, bool[2,4,4] on)
        => (float[2,4,8] y) {{ scale = Constant <value = float {{0.0}}> ()
        last = Constant <value = int64[1] {{-1}}> ()
        s = MatMul (q, k)  {middle}  y = MatMul (p, v) }}"""
    assert groups(text) == [("attention", size)]


def test_attention_whose_weights_are_an_output_is_left_open() -> None:
    text = """m (float[2,4,8] q, float[2,8,4] k, float[2,4,8] v) => (float[2,4,8] y, float[2,4,4] p)
        { s = MatMul (q, k)  p = Softmax (s)  y = MatMul (p, v) }"""
    assert groups(text) == []


def test_a_product_with_a_weight_starts_no_attention() -> None:
    text = """m (float[2,4,8] q, float[2,4,8] v) => (float[2,4,8] y) <float[8,4] w>
        { s = MatMul (q, w)  p = Softmax (s)  y = MatMul (p, v) }"""
    assert groups(text) == []


def test_softmax_and_log_softmax_in_parts() -> None:
    body = "g = ReduceMax <axes = [-1]> (x) d = Sub (x, g) e = Exp (d) t = ReduceSum (e, last) "
    last = "last = Constant <value = int64[1] {-1}> ()"
    assert groups(unary(body + "y = Div (e, t)", last)) == [("softmax", 5)]
    assert groups(unary(body + "l = Log (t) y = Sub (d, l)", last)) == [("softmax", 6)]


def test_convolution_takes_normalisation_residual_and_activation() -> None:
    text = """m (float[1,4,6,6] x) => (float[1,4,6,6] y)
        <float[4,4,1,1] w, float[4] s, float[4] b, float[4] v> {
        c = Conv (x, w)  n = BatchNormalization (c, s, b, s, v)  r = Add (n, x)  y = Relu (r) }"""
    assert groups(text) == [("conv_bn_activation", 4)]


def test_a_result_that_broadcasts_ends_the_epilogue() -> None:
    text = """m (float[1,4,6,6] x) => (float[1,4,6,6] y) <float[4,4,1,1] w> {
        g = GlobalAveragePool (x)  c = Conv (g, w)  s = Sigmoid (c)  y = Mul (x, s) }"""
    assert groups(text) == [("conv_bn_activation", 2)]


def test_views_do_not_part_a_product_from_its_activation() -> None:
    text = """m (float[4,8] x) => (float[2,2,8] y) <float[8,8] w, float[8] b> {
        shape = Constant <value = int64[3] {2, 2, 8}> ()
        g = Gemm (x, w, b)  r = Reshape (g, shape)  y = Relu (r) }"""
    assert groups(text) == [("matmul_bias_activation", 3)]


def test_a_view_of_a_group_joins_it() -> None:
    text = """m (float[4,8] x) => (float[2,2,8] y) {
        shape = Constant <value = int64[3] {2, 2, 8}> ()
        a = Sin (x)  b = Cos (a)  y = Reshape (b, shape) }"""
    assert groups(text) == [("elementwise", 3)]


def test_a_group_is_merged_only_within_the_limit() -> None:
    text = """m (float[2,8] x) => (float[2,8] y) <float[8,8] w> {
        p = MatMul (x, w)  a = Add (p, x)  s = Sigmoid (a)  y = Mul (a, s) }"""
    assert groups(text, 4) == [("matmul_bias_activation", 4)]
    assert groups(text, 3) == [("swish", 2), ("matmul_bias_activation", 2)][::-1]
    assert groups(text, 1) == []


def test_constants_and_ops_with_subgraphs_join_no_group() -> None:
    text = """m (float[4] x, bool c) => (float[4] y) <float[4] w> {
        k = Sqrt (w)  a = Mul (x, k)
        b = If (c) <then_branch = t () => (float[4] r) { r = Neg (a) },
                    else_branch = e () => (float[4] q) { q = Abs (a) }>
        d = Sin (b)  y = Cos (d) }"""
    plan = plan_of(text)
    assert [group.nodes for group in plan.groups] == [("Sin_1", "Cos_1")]


def test_a_training_batch_normalisation_ends_the_epilogue() -> None:
    text = """m (float[2,4,3,3] x) => (float[2,4,3,3] y, float[4] mean)
        <float[4,4,1,1] w, float[4] s, float[4] b, float[4] v> {
        c = Conv (x, w)
        y, mean, var = BatchNormalization <training_mode = 1> (c, s, b, s, v) }"""
    assert groups(text) == []


def test_groups_are_named_after_their_last_op_and_stand_in_order() -> None:
    text = """m (float[4] x) => (float[4] y, float[4] z) {
        a = Sin (x)  b = Sin (x)  c = Cos (b)  z = Neg (c)  d = Cos (a)  y = Neg (d) }"""
    plan = plan_of(text)
    assert [group.name for group in plan.groups] == ["Neg_1", "Neg_2"]
    assert plan.groups[1].nodes == ("Sin_1", "Cos_2", "Neg_2")


def test_the_pass_sets_the_plan_and_takes_options() -> None:
    (step,) = parse_pipeline("fuse{max_group=8,rules=gelu;swish}")
    assert step == Fuse(max_group=8, rules=("gelu", "swish"))
    model, _ = import_model(
        ir.from_proto(parse_filled(HEAD + unary("a = Sin (x) b = Sigmoid (a) y = Mul (a, b)"))), "t"
    )
    step.run(model, PassContext(None, None, None, report=lambda _: None))  # pyright: ignore
    assert [g.kind for g in FUSION_PLAN.get(model).groups] == ["swish"]


@pytest.mark.parametrize("text", ["fuse{max_group=0}", "fuse{rules=nothing}"])
def test_bad_options_are_refused(text: str) -> None:
    with pytest.raises(CompileError, match="MCM-U002"):
        parse_pipeline(text)


@pytest.mark.parametrize(
    ("before", "expected"),
    [("", ["a_rule", "z_rule", "softmax"]), ("gelu", ["rms_norm", "a_rule", "z_rule", "gelu"]),
     ("view", ["elementwise", "a_rule", "z_rule", "view"])],
)  # fmt: skip
def test_rules_of_plug_ins_are_tried_before_the_one_they_name(before, expected):
    try:
        for name in ("z_rule", "a_rule"):
            rule = FusionRule(name, frozenset(), lambda _grouping, _anchor: None, before=before)
            FUSION_RULES.add(name, rule, f"{name}.py")
        names = list(fusion_rules())
        begin = names.index(expected[0])
        assert names[begin : begin + len(expected)] == expected
        assert Fuse().rules == tuple(names)
        assert [name for name in names if not name.endswith("_rule")] == list(ONNX_RULES)
    finally:
        for name in ("z_rule", "a_rule"):
            FUSION_RULES.remove(name)
    assert Fuse().rules == tuple(ONNX_RULES)


KEYS = "ku = Unsqueeze (kp, at) kx = Expand (ku, many) kr = Reshape (kx, back)"


@pytest.mark.parametrize(
    ("scaled", "size"),
    [
        ("kt = Transpose <perm = [0, 1, 3, 2]> (kr) ks = Mul (kt, half)", 12),
        ("ks = Transpose <perm = [0, 1, 3, 2]> (kr)", 11),
        # By something else than a number of the model, the scaled cache is another one.
        ("kt = Transpose <perm = [0, 1, 3, 2]> (kr) ks = Mul (kt, f)", 7),
    ],
)
def test_a_cache_is_read_as_it_is_stored_also_where_keys_are_scaled(scaled: str, size: int) -> None:
    """As exporters write scaled_dot_product_attention, which scales queries and keys."""
    text = (
        "m (float[1,4,1,8] q, float[1,2,6,8] k, float[1,2,1,8] n, float[1] f)"
        " => (float[1,4,1,8] y, float[1,2,7,8] kp) <int64[1] at = {2}, int64[5] many ="
        " {1,2,2,7,8}, int64[4] back = {1,4,7,8}> {"
        f" {HALF} kp = Concat <axis = 2> (k, n) {KEYS} {scaled} s = MatMul (q, ks) a = Add (s, f)"
        " p = Softmax <axis = -1> (a) vu = Unsqueeze (kp, at) vx = Expand (vu, many)"
        " vr = Reshape (vx, back) y = MatMul (p, vr) }"
    )
    assert ("attention", size) in groups(text)
