"""What the proof by structure takes for equal, and what it does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper, parser

from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.equivalence.structure_proof import prove_chips
from mcm_compiler.equivalence.values.followed_passes import (
    MAX_CONSTANT_BYTES,
    constant_bytes,
    unfollowed_passes,
)
from mcm_compiler.options import DEFAULT_PIPELINE
from mcm_compiler.registry import PASSES

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'

Edit = Callable[[onnx.ModelProto], None]


def model_of(text: str, **weights: np.ndarray) -> ir.Model:
    proto = parser.parse_model(f"{HEAD} {text}")
    for name, array in weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return ir.from_proto(proto)


def prove(source: ir.Model, *chips: ir.Model, wires=None, placeholders=False):
    """One chip after the other; by default all values go from each chip to all that read them."""
    models = tuple(
        ChipModel(
            number,
            chip,
            tuple(v.name or "" for v in chip.graph.inputs),
            tuple(v.name or "" for v in chip.graph.outputs),
        )
        for number, chip in enumerate(chips)
    )
    if wires is None:
        sent = {v.name: HOST for v in source.graph.inputs}
        sent |= {name: chip.chip for chip in models for name in chip.outputs}
        wires = [
            Wire(name, sent[name], (chip.chip,)) for chip in models for name in chip.inputs
        ] + [Wire(v.name or "", sent[v.name], (HOST,)) for v in source.graph.outputs]
    return prove_chips(source, models, wires, placeholders=placeholders)


X = "(float[4,4] x) => (float[4,4] y)"


def test_the_same_graph_on_two_chips_is_whole():
    proof = prove(
        model_of(f"m {X} {{ a = Relu (x) y = Tanh (a) }}"),
        model_of("c (float[4,4] x) => (float[4,4] a) { a = Relu (x) }"),
        model_of("d (float[4,4] a) => (float[4,4] y) { y = Tanh (a) }"),
    )
    assert proof.whole
    assert (proof.ops, proof.proven) == (2, 2)


EQUAL = {
    "identities": ("a = Identity (x) y = Relu (a)", "y = Relu (x)"),
    "relays": ("y = Relu (x)", "a = Identity (x) b = Identity (a) y = Relu (b)"),
    "dropout": ("a = Dropout (x) y = Relu (a)", "y = Relu (x)"),
    "dead code": ("d = Tanh (x) y = Relu (x)", "y = Relu (x)"),
    "merged ops": ("a = Relu (x) b = Relu (x) y = Add (a, b)", "a = Relu (x) y = Add (a, a)"),
    "cloned ops": ("a = Relu (x) y = Add (a, a)", "a = Relu (x) b = Relu (x) y = Add (a, b)"),
    "default attribute spelled out": ("y = Elu (x)", "y = Elu <alpha = 1.0> (x)"),
    "constant shape": (
        "s = Shape (x) e = Expand (x, s) y = Relu (e)",
        "s = Constant <value = int64[2] {4, 4}> () e = Expand (x, s) y = Relu (e)",
    ),
    "folded constant": (
        "a = Constant <value_float = 2.0> () b = Mul (a, a) y = Mul (x, b)",
        "b = Constant <value_float = 4.0> () y = Mul (x, b)",
    ),
    "known condition": (
        "c = Constant <value = bool[1] {1}> () y = If (c) <then_branch = t () => (float[4,4] p)"
        " { p = Relu (x) }, else_branch = e () => (float[4,4] q) { q = Tanh (x) }>",
        "y = Relu (x)",
    ),
    "order": (
        "a = Relu (x) b = Tanh (x) y = Add (a, b)",
        "b = Tanh (x) a = Relu (x) y = Add (a, b)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_rewrite_with_a_rule_is_proven(name):
    source, chip = EQUAL[name]
    proof = prove(model_of(f"m {X} {{ {source} }}"), model_of(f"c {X} {{ {chip} }}"))
    assert proof.whole, proof


OTHER = {
    "op": ("y = Relu (x)", "y = Tanh (x)"),
    "attribute": ("y = Elu (x)", "y = Elu <alpha = 1.5> (x)"),
    "operands": ("a = Relu (x) y = Sub (x, a)", "a = Relu (x) y = Sub (a, x)"),
    "constant": (
        "a = Constant <value_float = 2.0> () b = Mul (a, a) y = Mul (x, b)",
        "b = Constant <value_float = 5.0> () y = Mul (x, b)",
    ),
    "negative zero": (
        "b = Constant <value_float = 0.0> () y = Mul (x, b)",
        "b = Constant <value_float = -0.0> () y = Mul (x, b)",
    ),
    "other branch": (
        "c = Constant <value = bool[1] {0}> () y = If (c) <then_branch = t () => (float[4,4] p)"
        " { p = Relu (x) }, else_branch = e () => (float[4,4] q) { q = Tanh (x) }>",
        "y = Relu (x)",
    ),
    "extra op": ("y = Relu (x)", "a = Relu (x) y = Tanh (a)"),
    "missing op": ("a = Relu (x) y = Tanh (a)", "y = Tanh (x)"),
    "merged draws": (
        "a = RandomNormalLike (x) b = RandomNormalLike (x) y = Sub (a, b)",
        "a = RandomNormalLike (x) y = Sub (a, a)",
    ),
    "cloned draw": (
        "a = RandomNormalLike (x) y = Sub (a, a)",
        "a = RandomNormalLike (x) b = RandomNormalLike (x) y = Sub (a, b)",
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_computation_is_not_proven(name):
    source, chip = OTHER[name]
    proof = prove(model_of(f"m {X} {{ {source} }}"), model_of(f"c {X} {{ {chip} }}"))
    assert not proof.whole


def test_draws_in_another_order_are_the_same_draws():
    text = "a = RandomNormalLike (x) b = RandomNormalLike (x) c = Relu (b) y = Sub (a, c)"
    other = "b = RandomNormalLike (x) c = Relu (b) a = RandomNormalLike (x) y = Sub (a, c)"
    assert prove(model_of(f"m {X} {{ {text} }}"), model_of(f"c {X} {{ {other} }}")).whole


def test_wire_that_brings_another_value_is_told():
    source = model_of(f"m {X} {{ a = Relu (x) b = Tanh (x) y = Sub (a, b) }}")
    first = model_of(
        "c (float[4,4] x) => (float[4,4] a, float[4,4] b) { a = Relu (x) b = Tanh (x) }"
    )
    second = model_of("d (float[4,4] b, float[4,4] a) => (float[4,4] y) { y = Sub (b, a) }")
    proof = prove(source, first, second)
    assert [op.node for op in proof.unproven] == [""]
    assert not proof.whole


def test_output_that_is_another_value_of_the_model_is_told():
    source = model_of("m (float[4] x) => (float[4] y, float[4] z) { y = Relu (x) z = Tanh (x) }")
    chip = model_of("c (float[4] x) => (float[4] z, float[4] y) { z = Relu (x) y = Tanh (x) }")
    proof = prove(source, chip)
    assert proof.outputs == ("y", "z")
    assert not proof.unproven


def sharded(cut: int, order=(0, 1), bias_cut: int | None = None) -> ir.Model:
    weight, bias = _wide()
    parts = {"u": weight[:, :cut], "v": weight[:, cut:]}
    at = cut if bias_cut is None else bias_cut
    parts |= {"p": bias[:at], "q": bias[at:]}
    first, second = (("a", "b")[i] for i in order)
    return model_of(
        "c (float[2,4] x) => (float[2,8] y) { a = Gemm (x, u, p) b = Gemm (x, v, q)"
        f" y = Concat <axis = 1> ({first}, {second}) }}",
        **{name: np.ascontiguousarray(part) for name, part in parts.items()},
    )


def _wide() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, 8), np.float32), rng.standard_normal(8, np.float32)


def wide_source() -> ir.Model:
    weight, bias = _wide()
    text = "m (float[2,4] x) => (float[2,8] y) { y = Gemm (x, w, s) }"
    return model_of(text, w=weight, s=bias)


def test_parts_with_slices_make_up_the_op():
    proof = prove(wide_source(), sharded(3))
    assert proof.whole
    assert proof.ops == 3


def test_parts_in_another_order_or_with_other_slices_do_not():
    assert not prove(wide_source(), sharded(3, order=(1, 0))).whole
    assert not prove(wide_source(), sharded(4, order=(1, 0))).whole
    changed = sharded(4)
    value = changed.graph.initializers["q"]
    value.const_value = ir.Tensor(np.zeros(4, np.float32), name="q")
    assert not prove(wide_source(), changed).whole


def test_placeholders_are_known_by_name():
    text = (
        "s = Constant <value = int64[2] {{4, 4}}> () {0} = ConstantOfShape (s)"
        " {1} = ConstantOfShape (s) a = MatMul (x, u) y = MatMul (a, v)"
    )
    source = model_of(f"m {X} {{ {text.format('u', 'v')} }}")
    same = model_of(f"c {X} {{ {text.format('v', 'u')} }}")
    crossed = text.replace("(x, u)", "(x, v)").replace("(a, v)", "(a, u)")
    swapped = model_of(f"c {X} {{ {crossed.format('u', 'v')} }}")
    assert prove(source, same, placeholders=True).whole
    assert not prove(source, swapped, placeholders=True).whole


def test_function_call_is_the_body_of_the_function():
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> m (float[4] x) => (float[4] y)'
        " { y = own.Twice <by = 1.5> (x) }"
        ' <domain: "own", opset_import: ["" : 17]> Twice <by> (a) => (b)'
        " { c = Elu <alpha : float = @by> (a) b = Elu <alpha : float = @by> (c) }"
    )
    source = ir.from_proto(parser.parse_model(text))
    chip = "c (float[4] x) => (float[4] y) { a = Elu <alpha = 1.5> (x) y = Elu <alpha = %s> (a) }"
    assert prove(source, model_of(chip % "1.5")).whole
    assert not prove(source, model_of(chip % "1.25")).whole


def test_bodies_are_compared_with_what_they_capture():
    text = (
        "n = Constant <value = int64 {{3}}> () c = Constant <value = bool {{1}}> () w = {0} (x)"
        " y = Loop (n, c, x) <body = b (int64 i, bool g, float[4,4] s) => (bool h, float[4,4] t)"
        " {{ h = Identity (g) t = {1} (s, w) }}>"
    )
    source = model_of(f"m {X} {{ {text.format('Relu', 'Add')} }}")
    assert prove(source, model_of(f"c {X} {{ {text.format('Relu', 'Add')} }}")).whole
    assert not prove(source, model_of(f"c {X} {{ {text.format('Relu', 'Mul')} }}")).whole
    assert not prove(source, model_of(f"c {X} {{ {text.format('Tanh', 'Add')} }}")).whole


def test_constants_are_computed_up_to_the_size_that_the_pipeline_folded():
    text = "simplify{max_fold_bytes=%d},emit"
    assert constant_bytes(text % (1 << 24)) == 1 << 24
    assert constant_bytes(text % 10) == MAX_CONSTANT_BYTES
    assert constant_bytes("nothing{of the kind") == MAX_CONSTANT_BYTES
    assert constant_bytes(text % (1 << 60)) == 1 << 30


def test_passes_of_others_are_not_followed_whatever_their_name():
    assert unfollowed_passes(DEFAULT_PIPELINE) == ()
    assert unfollowed_passes("apply_plan{file=p.json},simplify") == ("apply_plan",)
    PASSES.add("other_pass", object, "test")
    try:
        assert unfollowed_passes("simplify,other_pass") == ("other_pass",)
    finally:
        PASSES.remove("other_pass")


def test_input_with_a_default_counts_as_what_the_wire_brings():
    weight = np.ones((4, 4), np.float32)
    source = model_of(f"m {X} {{ a = Relu (x) y = Add (a, w) }}", w=weight)
    first = model_of(
        "c (float[4,4] x) => (float[4,4] a, float[4,4] w) { a = Relu (x) w = Tanh (x) }"
    )
    second = model_of(
        "d (float[4,4] a, float[4,4] w) => (float[4,4] y) { y = Add (a, w) }", w=weight
    )
    wires = [Wire("x", HOST, (0,)), Wire("a", 0, (1,)), Wire("y", 1, (HOST,))]
    unfed = prove(source, first, second, wires=wires)
    assert [op.op_type for op in unfed.unproven] == ["Tanh"]
    fed = prove(source, first, second, wires=[*wires, Wire("w", 0, (1,))])
    assert [op.op_type for op in fed.unproven] == ["Tanh", "Add"]


def test_functions_that_expand_without_end_are_refused(monkeypatch):
    from mcm_compiler.diagnostics import CompileError
    from mcm_compiler.equivalence.values import graph_walk

    monkeypatch.setattr(graph_walk, "MAX_OPS", 100)
    ops = " ".join(f"a{i + 1} = Relu (a{i})" for i in range(150))
    source = model_of(f"m (float[4] a0) => (float[4] a150) {{ {ops} }}")
    with pytest.raises(CompileError) as found:
        prove(source, source)
    assert found.value.diagnostics[0].code == "MCM-V068"
