"""Random inputs that models accept."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.execution.inputs import FILLS, index_limit, random_inputs


def model():
    return ir.from_onnx_text("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (int64[1,64] ids, int64[1,64] mask, float[2] x, bool[8] b, string[3] s,
           float[10,4] table) => (float[2] y)
        <int64[1] axes = {0}>
        {
            wide = Unsqueeze(ids, axes)
            rows = Gather(table, wide)
            y = Identity(x)
        }
    """)


def test_indices_stay_within_their_table():
    built = model()
    inputs = {v.name: v for v in built.graph.inputs}
    assert index_limit(inputs["ids"]) == 10
    assert index_limit(inputs["mask"]) == 2
    feeds = random_inputs(built, 0)
    assert feeds["ids"].max() < 10
    assert len(np.unique(feeds["ids"])) > 3
    assert set(np.unique(feeds["mask"])) == {0, 1}


def test_types_shapes_and_seeds():
    built = model()
    feeds = random_inputs(built, 0)
    assert feeds["x"].dtype == np.float32
    assert feeds["b"].dtype == np.bool_
    assert feeds["s"].shape == (3,)
    again, other = random_inputs(built, 0), random_inputs(built, 1)
    assert all(np.array_equal(feeds[k], again[k]) for k in feeds)
    assert not np.array_equal(feeds["x"], other["x"])


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("y = GatherElements <axis = 1> (t, i)", 3),
        ("y = GatherND (t, i)", 3),
        ("y = ScatterElements <axis = -1> (t, i, t)", 3),
        ("y = ReverseSequence <time_axis = 0> (t, i)", 8),
        ("c = Cast <to = 7> (i) y = Gather (t, c)", 7),
        ("y = Add (i, i)", 2),
    ],
)
def test_limits_of_integers(text, limit):
    built = ir.from_onnx_text(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[7,3] t, int64[7,3] i) => (float[7,3] y) {{ {text} }}
    """)
    assert index_limit(built.graph.inputs[1]) == limit


def test_lengths_of_recurrent_ops():
    built = ir.from_onnx_text("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[5,2,4] x, float[1,6,4] w, float[1,6,6] r, int32[2] lengths) => (float[5,1,2,6] y)
        { y = RNN <hidden_size = 6> (x, w, r, , lengths) }
    """)
    assert index_limit(built.graph.inputs[3]) == 6


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool", "float", "float16"])
def test_a_mask_admits_the_first_token(dtype):
    text = f"({dtype}[8,3] attention_mask, bool[8,3] ids) => ({dtype}[8,3] y)"
    head = '<ir_version: 8, opset_import: ["": 17]>'
    made = onnx.parser.parse_model(f"{head} m {text} {{ y = Identity (attention_mask) }}")
    feeds = [random_inputs(ir.from_proto(made), seed) for seed in range(3)]
    assert all(feed["attention_mask"][:, 0].all() for feed in feeds)
    assert not any(feed["ids"][:, 0].all() for feed in feeds)
    if not dtype.startswith("float"):  # normal numbers are never 0
        assert not any(feed["attention_mask"].all() for feed in feeds)


def test_ways_to_fill_integers():
    built = model()
    filled = {fill: random_inputs(built, 0, fill)["ids"] for fill in FILLS}
    assert set(np.unique(filled["ones"])) == {1}
    assert set(np.unique(filled["zeros"])) == {0}
    assert len(np.unique(filled["drawn"])) > 2


def test_sequences_and_optionals_have_values():
    tensor = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2, "n"])
    kinds = {
        "s": onnx.helper.make_sequence_type_proto(tensor),
        "o": onnx.helper.make_optional_type_proto(tensor),
    }
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("SequenceLength", ["s"], ["y"])],
        "g",
        [onnx.helper.make_value_info(name, kind) for name, kind in kinds.items()],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [])],
    )
    feeds = random_inputs(ir.from_proto(onnx.helper.make_model(graph)), 0)
    assert [item.shape for item in feeds["s"]] == [(2, 1), (2, 1)]
    assert not np.array_equal(*feeds["s"])
    assert feeds["o"].shape == (2, 1)


def test_scalars_are_arrays():
    built = ir.from_onnx_text("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (string s, bool b, float f, int64 i) => (float y) { y = Identity (f) }
    """)
    feeds = random_inputs(built, 0)
    assert all(isinstance(value, np.ndarray) and value.shape == () for value in feeds.values())
