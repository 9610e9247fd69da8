"""Types and shapes: what is certain is static, what depends on data is open but has a size."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.graph.estimated_dims import dim_size, estimated_dim, is_estimated, upper_bound
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.ir.shapes import shapes_by_run
from mcm_compiler.ir.shapes.fixed_shapes import fixed_shapes
from mcm_compiler.ir.shapes.inference import infer_shapes

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'


def imported(text, **options):
    model, _ = import_model(ir.from_proto(onnx.parser.parse_model(HEAD + text)), "m", **options)
    return {v.name: v for node in model.graph for v in node.outputs}


def test_sizes_of_open_dimensions_are_read_back_from_their_names():
    dim = estimated_dim("a/1=2?", 0, 17)
    assert dim_size(dim) == 17
    assert is_estimated(dim)
    assert dim_size(ir.SymbolicDim("batch")) == dim_size(ir.SymbolicDim(None)) == 1
    assert not is_estimated(ir.SymbolicDim("batch"))
    assert dim_size(5) == 5


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("y = NonZero (x)", (2, 24)),
        ("y = Unique (x)", (24,)),
        ("y = Unique <axis = 1> (x)", (4, 6)),
        ("y = Compress <axis = 0> (x, c)", (4, 6)),
        ("y = Compress (x, c)", (24,)),
        ("y = NonMaxSuppression (b, s, k)", (2 * 3 * 5, 3)),
        ("y = NonMaxSuppression (b, s)", (2 * 3 * 9, 3)),
        ("y = Relu (x)", None),
    ],
)
def test_upper_bounds(text, bound):
    model = ir.from_onnx_text(
        HEAD + "m (float[4,6] x, bool[4] c, float[2,9,4] b, float[2,3,9] s) => (float[N] y) "
        f"<int64[1] k = {{5}}> {{ {text} }}"
    )
    assert upper_bound(model.graph[0]) == bound


def test_shapes_that_follow_data_stay_open_with_their_bound():
    values = imported("m (float[4,6] x) => (float[N] y) { i = NonZero (x) y = Cast <to=1> (i) }")
    rank, found = values["i"].shape
    assert rank == 2
    assert dim_size(found) == 24
    assert not values["i"].shape.is_static()
    assert 0 < dim_size(values["y"].shape[1]) <= 24


def test_shapes_that_follow_input_values_stay_open():
    values = imported(
        "m (float[4,6] x, int64[2] s) => (float[M,N] y) { r = Reshape (x, s) y = Relu (r) }"
    )
    assert values["r"].type == ir.TensorType(ir.DataType.FLOAT)
    assert values["r"].shape is None or not values["r"].shape.is_static()


def test_shapes_that_only_the_runtime_tells_are_static_where_no_data_decides():
    values = imported(
        "m (float[4,6] x) => (float[M,N] y) <int64[1] back = {-1}> {"
        " s = Shape (x) n = ReduceProd <keepdims = 1> (s) t = Cast <to = 1> (n)"
        " u = Sqrt (t) v = Floor (u) k = Cast <to = 7> (v) d = Concat <axis = 0> (k, back)"
        " y = Reshape (x, d) }"
    )
    assert values["y"].shape == ir.Shape([4, 6])


@pytest.mark.parametrize(
    "text",
    [
        "r = ReduceSum <keepdims = 0> (x, s)",
        "r = Squeeze (n, s)",
        "z = Reshape (x, s) r = Squeeze (z)",
        "d = Unique (s) r = Reshape (x, d)",
        "r = If (c) <then_branch = t () => (float[M] a) { a = ReduceSum <keepdims = 0> (x) },"
        " else_branch = e () => (float[M,N] b) { b = Relu (x) }>",
    ],
)
def test_ranks_that_follow_data_stay_open(text):
    values = imported(
        "m (float[4,6] x, int64[2] s, bool c, float[4,1,1,6] n) => (float y) {"
        f" {text} q = Relu (r) y = ReduceSum <keepdims = 0> (q) }}"
    )
    for name in ("r", "q"):
        assert values[name].type == ir.TensorType(ir.DataType.FLOAT)
        assert values[name].shape is None


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("r = ReduceSum <keepdims = 1> (x, s)", 2),
        ("r = Reshape (x, s)", 2),
        ("k = Shape (x) t = Mul (k, s) r = Reshape (x, t)", 2),
    ],
)
def test_ranks_that_data_does_not_decide_are_learnt(text, rank):
    values = imported(
        "m (float[4,6] x, int64[2] s) => (float y) {"
        f" {text} q = Relu (r) y = ReduceSum <keepdims = 0> (q) }}"
    )
    assert len(values["q"].shape) == rank
    assert not values["q"].shape.is_static()


def test_values_fixed_by_shapes_and_constants():
    model = ir.from_onnx_text(
        HEAD + "m (float[4,6] x, int64[2] s) => (float[M,N] y) {"
        " h = Shape (x) a = Reshape (x, h) b = Reshape (x, s) y = Add (a, b) }"
    )
    names = {v.name for v in fixed_shapes(model)}
    assert {"x", "s", "h", "a"} <= names
    assert not {"b", "y"} & names


def test_sequences_keep_their_type():
    values = imported(
        "m (float[2] x) => (float[4] y) { s = SequenceConstruct (x, x)"
        " y = ConcatFromSequence <axis = 0> (s) }"
    )
    assert values["s"].type == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))


def test_types_are_known_where_no_random_input_suits_the_model():
    # The run fails for every input below: 24 elements do not fit into [5, anything].
    values = imported(
        "m (float[4,6] x, int64[1] s) => (float[M] y) <int64[1] five = {5}> {"
        " d = Concat <axis = 0> (five, s) r = Reshape (x, d)"
        " g = com.microsoft.Gelu (r) y = Relu (g) }"
    )
    assert values["g"].type == ir.TensorType(ir.DataType.FLOAT)


def test_no_run_takes_more_memory_than_a_bound():
    text = (
        "m (float[200000000] x, float[200000000] z, float[200000000] u, int64[2] s)"
        " => (float[M,N] y) { y = Reshape (x, s) }"
    )
    with pytest.raises(CompileError) as refused:
        import_model(ir.from_proto(onnx.parser.parse_model(HEAD + text)), "m")
    (fault,) = refused.value.diagnostics
    assert fault.code == "MCM-I040"
    assert "a run to learn it would take 2.2 GiB of memory" in fault.message
    assert "count as 1" not in fault.message


@pytest.mark.parametrize(("kind", "runs"), [("float", 1), ("int64", 3)])
def test_only_inputs_that_differ_are_tried(kind, runs, monkeypatch):
    tried = []

    def inputs(model, seed, fill):
        tried.append(fill)
        return random_inputs(model, seed, fill)

    monkeypatch.setattr(shapes_by_run, "random_inputs", inputs)
    # No size fits: 5 does not divide 12.
    imported(
        f"m ({kind}[12] x) => ({kind}[M,N] y) <int64[2] d = {{5, -1}}> {{"
        " a = Cast <to = 7> (x) b = ReduceMax <keepdims = 1> (a) c = Mul (b, b) e = Sub (c, c)"
        " f = Add (d, e) y = Reshape (x, f) }"
    )
    assert len(tried) == runs


def test_dimensions_of_sequence_inputs_may_stay_open():
    tensor = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ["N"])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("SequenceLength", ["s"], ["y"])],
        "g",
        [onnx.helper.make_value_info("s", onnx.helper.make_sequence_type_proto(tensor))],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [])],
    )
    proto = onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    model, _ = import_model(ir.from_proto(proto), "m")
    assert isinstance(model.graph.inputs[0].type, ir.SequenceType)


def test_opsets_before_the_guaranteed_ones_are_read():
    text = '<ir_version: 3, opset_import: ["" : 6]> m (float[2] x) => (float[2] y) { y = Relu (x) }'
    model, _ = import_model(ir.from_proto(onnx.parser.parse_model(text)), "m")
    assert model.opset_imports[""] == 6
    assert np.prod(model.graph.outputs[0].shape.numpy()) == 2


def test_results_that_nobody_reads_get_types_from_what_a_run_tells():
    """An op whose inference onnx lacks makes the input of another one with unread results."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> m (float[3, 3] x)'
        " => (float[a, b] y) {"
        " t = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 1.0]> (x)"
        " y, indices, inverse, counts = Unique <axis = 0, sorted = 1> (t) }"
    )
    model = ir.from_proto(proto)
    infer_shapes(model)
    unread = [value for node in model.graph for value in node.outputs if not value.uses()]
    assert [value.name for value in unread] == ["y", "indices", "inverse", "counts"]
    assert {value.dtype for value in unread[1:]} == {ir.DataType.INT64}


def test_a_false_shape_behind_what_onnx_cannot_infer_is_corrected():
    """onnxruntime says so of a graph output and goes on with what the op makes."""
    text = (
        "m (float[4, 6] x, float[6] w) => (float[6, 7] y) {"
        " a = com.microsoft.Gelu (x) y = Mul (a, w) }"
    )
    model, notes = import_model(ir.from_proto(onnx.parser.parse_model(HEAD + text)), "m")
    assert model.graph.outputs[0].shape == ir.Shape([4, 6])
    assert "MCM-I050" in [note.code for note in notes]
