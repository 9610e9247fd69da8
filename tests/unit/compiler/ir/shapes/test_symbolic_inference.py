"""onnxruntime's symbolic inference: what it finds without a run, and that it never overrides."""

from __future__ import annotations

import pickle
import subprocess
import sys

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.execution.runner import open_session
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.ir.shapes import doubtful_shapes, symbolic_inference, symbolic_rules
from mcm_compiler.ir.shapes import inference as shapes
from mcm_compiler.ir.shapes.symbolic_inference import infer_symbolically, open_region

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "own" : 1]>\n'

RUNTIME_OPS = {
    "Attention": (
        "float[2,3,8] x, float[8,24] w, float[24] b",
        "Attention <num_heads = 2> (x, w, b)",
    ),
    "BiasGelu": ("float[2,3,8] x, float[8] b", "BiasGelu (x, b)"),
    "DequantizeLinear": ("uint8[2,3] x, float s, uint8 z", "DequantizeLinear (x, s, z)"),
    "EmbedLayerNormalization": (
        "int32[2,3] i, int32[2,3] t, float[9,8] w, float[5,8] p, float[2,8] s, float[8] g",
        "EmbedLayerNormalization (i, t, w, p, s, g, g)",
    ),
    "FastGelu": ("float[2,3,8] x", "FastGelu (x)"),
    "Gelu": ("float[2,3,8] x", "Gelu (x)"),
    "QLinearAdd": (
        "uint8[2,3] x, float s, uint8 z, uint8[1,3] y",
        "QLinearAdd (x, s, z, y, s, z, s, z)",
    ),
    "QLinearMul": (
        "uint8[2,3] x, float s, uint8 z, uint8[3] y",
        "QLinearMul (x, s, z, y, s, z, s, z)",
    ),
    "QuantizeLinear": ("float[2,3] x, float s, int8 z", "QuantizeLinear (x, s, z)"),
    "QuickGelu": ("float[2,3,8] x", "QuickGelu (x)"),
}  # fmt: skip


def parsed(text):
    return onnx.parser.parse_model(HEAD + text)


def inferred(text):
    """The main graph's values after the two inferences, without a run."""
    model = ir.from_proto(parsed(text))
    shapes._infer_with_onnx(model)
    missing = shapes.open_values(model)
    infer_symbolically(model, missing)
    return {v.name: v for node in model.graph for v in node.outputs}


def sizes(value):
    return [dim if isinstance(dim, int) else None for dim in value.shape]


@pytest.fixture
def no_run(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a run was asked for")

    monkeypatch.setattr(shapes, "learn_from_run", refuse)


def test_every_rule_that_is_trusted_is_compared():
    assert sorted(RUNTIME_OPS) == sorted(symbolic_rules._RUNTIME_RULES)


@pytest.mark.parametrize("op", sorted(RUNTIME_OPS))
def test_rules_agree_with_what_onnxruntime_infers_when_it_loads_the_model(op):
    inputs, call = RUNTIME_OPS[op]
    made = "a, m" if op == "EmbedLayerNormalization" else "a"
    # The parser wants a type for the output, and onnxruntime is to find it.
    proto = parsed(f"m ({inputs}) => (float a) {{ {made} = com.microsoft.{call} }}")
    proto.graph.output[0].ClearField("type")
    (told,) = open_session(proto).get_outputs()
    model = ir.from_proto(proto)
    infer_symbolically(model, list(model.graph.outputs))
    found = model.graph.outputs[0]
    assert sizes(found) == told.shape
    kind = {"float": "tensor(float)", "uint8": "tensor(uint8)", "int8": "tensor(int8)"}
    assert kind[str(found.dtype).lower()] == told.type


def test_the_op_that_onnxruntime_adds_to_the_ops_of_onnx():
    values = inferred(
        "m (float[2,3,8] x, float[8] g) => (float[A,B,C] y) {"
        " s = SimplifiedLayerNormalization <axis = -1> (x, g) y = Relu (s) }"
    )
    assert sizes(values["y"]) == [2, 3, 8]


def test_a_chain_of_runtime_ops_needs_no_run(no_run):
    proto = parsed(
        "m (float[2,3,8] x, float[8] g, float[8] b, float[8,24] w, float[24] wb) =>"
        " (float[2,3,8] y) {"
        " a = com.microsoft.Attention <num_heads = 2> (x, w, wb)"
        " s = com.microsoft.SkipLayerNormalization (a, x, g, b)"
        " f = com.microsoft.BiasGelu (s, b) y = Relu (f) }"
    )
    model, notes = import_model(ir.from_proto(proto), "m")
    made = {v.name: v for node in model.graph for v in node.outputs}
    assert all(made[name].shape == ir.Shape([2, 3, 8]) for name in "asfy")
    assert [note.code for note in notes] == ["MCM-I041"]
    assert "3 from onnxruntime's symbolic inference" in notes[0].message
    assert notes[0].at == "value 'a' and others"


def test_shape_arithmetic_behind_a_runtime_op_is_followed():
    values = inferred(
        "m (float[2,3,8] x, float[8] b) => (float[M,N] y)"
        " <int64[1] back = {-1}, int64[1] one = {1}, int64[1] two = {2}> {"
        " g = com.microsoft.BiasGelu (x, b) h = Shape (g) t = Slice (h, one, two)"
        " d = Concat <axis = 0> (t, back) y = Reshape (g, d) }"
    )
    assert sizes(values["y"]) == [3, 16]


def test_constants_that_ops_make_take_part():
    """Exporters write sizes as `Constant` ops, not as initializers."""
    made = " ".join(
        f"{name} = Constant <value = int64[1] {{{number}}}> ()"
        for name, number in (("back", -1), ("one", 1), ("two", 2))
    )
    values = inferred(
        f"m (float[2,3,8] x, float[8] b) => (float[M,N] y) {{ {made}"
        " g = com.microsoft.BiasGelu (x, b) h = Shape (g) t = Slice (h, one, two)"
        " d = Concat <axis = 0> (t, back) y = Reshape (g, d) }"
    )
    assert sizes(values["y"]) == [3, 16]


CLAIMED = (
    "m (float[2,3,8] x, float[8] b) => (float[3,16] z)"
    " <float[2,3,8] g, float[{y}] y, int64[1] back = {{-1}}, int64[1] one = {{1}},"
    " int64[1] two = {{2}}> {{ g = com.microsoft.BiasGelu (x, b) h = Shape (g)"
    " t = Slice (h, one, two) d = Concat <axis = 0> (t, back) y = Reshape (g, d) z = Relu (y) }}"
)


@pytest.mark.parametrize(
    ("claim", "cheap_bytes", "compared"),
    [("3,16", 0, False), ("3,16", 1 << 28, True), ("6,8", 0, True)],
)
def test_claims_that_follow_need_no_run_of_a_large_model(claim, cheap_bytes, compared, monkeypatch):
    """All of them have to follow; a wrong one is compared with a run, and corrected by it."""
    asked = []
    plain = doubtful_shapes.contradicted_by_run

    def watched(model, runs, wanted):
        asked.extend(wanted)
        return plain(model, runs, wanted)

    monkeypatch.setattr(doubtful_shapes, "contradicted_by_run", watched)
    monkeypatch.setattr(shapes, "CHEAP_RUN_BYTES", cheap_bytes)
    model, _ = import_model(ir.from_proto(parsed(CLAIMED.format(y=claim))), "m")
    made = {v.name: v for node in model.graph for v in node.outputs}
    assert ("y" in {value.name for value in asked}) == compared
    assert [sizes(made[name]) for name in "gyz"] == [[2, 3, 8], [3, 16], [3, 16]]


def test_sizes_as_exporters_of_decoders_compute_them_need_no_run(no_run):
    """Whether a size of Expand is -1, and lengths for Range by Squeeze without axes."""
    proto = parsed(
        "m (float[2,3,8] x, float[1,3,1] v) => (float[A,B,C] y, int64[N] r)"
        " <int64[1] three = {3}, int64 zero = {0}, int64 one = {1}, int64[3] open = {-1,-1,-1}> {"
        " h = Shape <start = 0, end = 1> (x) l = Shape <start = 2> (x) z = Concat <axis = 0>"
        " (h, three, l) e = Equal (z, open) o = ConstantOfShape <value = int64[1] {1}> (three)"
        " s = Where (e, o, z) y = Expand (v, s) n = Squeeze (l) r = Range (zero, n, one) }"
    )
    model, _ = import_model(ir.from_proto(proto), "m")
    assert [sizes(value) for value in model.graph.outputs] == [[2, 3, 8], [8]]


def test_sizes_that_cancel_are_found():
    values = inferred(
        "m (float[4,6] x) => (float[M,N] y)"
        " <int64[1] back = {-1}, int64[1] zero = {0}, int64[1] one = {1}> {"
        " i = NonZero (x) f = Cast <to = 1> (i) t = Transpose (f) h = Shape (t)"
        " n = Slice (h, zero, one) d = Concat <axis = 0> (n, one, back) r = Reshape (t, d)"
        " y = ReduceSum <keepdims = 0> (r, zero) }"
    )
    assert sizes(values["r"]) == [None, 1, 2]
    assert sizes(values["y"]) == [1, 2]


@pytest.mark.parametrize(
    "call",
    [
        "y = Slice (i, zero, one, one)",  # there may be nothing to take
        "j = Squeeze (i) y = Unsqueeze (j, zero)",  # the open dimension may be one
    ],
)
def test_open_dimensions_are_not_guessed(call):
    values = inferred(
        "m (float[4,6] x) => (int64[M,N] y)"
        " <int64[1] zero = {0}, int64[1] one = {1}> {"
        f" i = NonZero (x) {call} }}"
    )
    shape = values["y"].shape
    assert shape is None or sizes(values["y"])[-1] is None


def test_equal_sizes_are_told_from_unequal_ones_only_where_that_is_certain():
    # The number of non-zero elements may be 1, so that either branch is possible.
    values = inferred(
        "m (float[6] x) => (float[M] y) <int64[1] one = {1}, int64[1] five = {5},"
        " int64[1] six = {6}, float[1] seed = {0}> {"
        " i = NonZero (x) h = Shape (i) n = Gather (h, one) e = Equal (n, one)"
        " s = Where (e, five, six) y = Expand (seed, s) }"
    )
    assert sizes(values["y"]) == [None]


def test_an_op_of_a_foreign_domain_is_not_taken_for_one_of_onnxruntime():
    values = inferred("m (float[2,3] x) => (float[M,N] y) { g = own.Gelu (x) y = Relu (g) }")
    assert values["g"].type is None
    assert not values["y"].shape or not values["y"].shape.is_static()


def test_what_is_known_is_never_overridden():
    model = ir.from_proto(
        parsed("m (float[2,3] x) => (float[2,3] y) { g = com.microsoft.Gelu (x) y = Relu (g) }")
    )
    (gelu, _) = model.graph
    gelu.outputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
    infer_symbolically(model, [gelu.outputs[0]])
    assert gelu.outputs[0].dtype is ir.DataType.FLOAT16
    assert gelu.outputs[0].shape is None
    gelu.outputs[0].type = None
    gelu.outputs[0].shape = ir.Shape([7, None])
    infer_symbolically(model, [gelu.outputs[0]])
    assert gelu.outputs[0].type is None
    assert sizes(gelu.outputs[0]) == [7, None]


@pytest.mark.forks
@pytest.mark.parametrize("fault", ["raise", "exit", "limit"])
def test_failures_leave_the_model_as_it_is_and_make_no_noise(fault, monkeypatch, capfd, tmp_path):
    def fail(*arguments):
        print("noise")
        if fault == "raise":
            raise RuntimeError("no such rule")
        raise SystemExit(3)

    monkeypatch.chdir(tmp_path)
    if fault == "limit":
        monkeypatch.setattr(symbolic_inference, "MAX_NODES", 0)
    else:
        monkeypatch.setattr(symbolic_rules, "infer_region", fail)
    values = inferred(
        "m (float[2,3] x) => (float[M,N] y) { g = com.microsoft.Gelu (x) y = Relu (g) }"
    )
    assert values["g"].type is None
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_models_that_onnx_infers_cost_nothing(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("symbolic inference was asked")

    monkeypatch.setattr(shapes, "infer_symbolically", refuse)
    _, notes = import_model(
        ir.from_proto(parsed("m (float[2,3] x) => (float[2,3] y) { y = Relu (x) }")), "m"
    )
    assert notes == []


def test_the_region_is_what_is_open_and_what_computes_its_shapes():
    model = ir.from_proto(
        parsed(
            "m (float[4,6] x) => (float[M,N] y) {"
            " a = Relu (x) h = Shape (a) g = com.microsoft.Gelu (a) b = Selu (a)"
            " r = Reshape (g, h) y = Add (r, b) }"
        )
    )
    shapes._infer_with_onnx(model)
    region = open_region(model, shapes.open_values(model))
    assert [node.op_type for node in region] == ["Shape", "Gelu", "Reshape", "Add"]


def test_a_process_that_forks_loads_the_rules_once_and_not_in_each_child():
    model = ir.from_proto(parsed("m (float[2,3] x) => (float[M,N] y) { y = Relu (x) }"))
    work = pickle.dumps(symbolic_inference._Region(model, [], []))
    rules = symbolic_rules.__name__
    look = f"import pickle, sys; pickle.loads({work!r}); print({rules!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_shapes_that_only_loading_tells_are_static_even_where_no_run_succeeds():
    # No random input suits the model: 24 elements do not fit into [5, anything].
    proto = parsed(
        "m (float[4,6] x, int64[1] s) => (float[4,4] y, float[M,N] z) <int64[1] five = {5}> {"
        " d = Concat <axis = 0> (five, s) z = Reshape (x, d)"
        " f = com.microsoft.FusedMatMul <transB = 1> (x, x) y = Relu (f) }"
    )
    model, notes = import_model(ir.from_proto(proto), "m")
    made = {v.name: v for node in model.graph for v in node.outputs}
    assert made["f"].shape == ir.Shape([4, 4])
    (warning,) = [note for note in notes if note.code == "MCM-I040"]
    assert warning.at == "value 'z'"
    assert "`--shape` or `--dim`" in warning.hint
