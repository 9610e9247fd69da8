"""Ops divided by a plan compute what they did before, in onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from numpy.typing import NDArray

from mcm_compiler.api import run_passes
from mcm_compiler.ir.rewriting.writer import write_with_data
from mcm_compiler.options import CompileOptions
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses, dimension_classes
from mcm_passes.parallelism.rules.graph_rules import rules_of
from mcm_passes.parallelism.sharded_graph.sharded_graph import shard_graph

T5 = (
    "zoo:t5{layers=1,decoder_layers=1,hidden=64,heads=4,head_width=16,intermediate=96,vocab=101,"
    "seq=8,decoder_seq=6}"
)
SPECS = [
    ("zoo:bert-tiny{seq=16}", 2),
    ("zoo:gpt2-tiny", 3),
    ("zoo:gpt2-tiny{heads=8,batch=2}", 4),
    ("zoo:gpt2-tiny{hidden=140,heads=7}", 3),
    ("zoo:dense-cnn{image_size=8,stages=2,blocks=2,growth=8}", 3),
    (T5, 3),
    ("zoo:mobilenet-v2{image_size=32}", 3),
    ("zoo:unet-cnn{image_size=32}", 2),
    ("zoo:stacked-rnn{layers=1,steps=2,hidden=32,batch=6}", 4),
]
TOLERANCE = 1e-4


def _model(spec: str) -> ir.Model:
    return run_passes(spec, "mcm36", CompileOptions(passes="simplify"))[0]


def _run(model: ir.Model, path: Path) -> dict[str, NDArray[np.float64]]:
    write_with_data(model, path, f"{path.name}.data")
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {
        i.name: rng.integers(0, 2, i.shape).astype("int64" if "64" in i.type else "int32")
        if "int" in i.type
        else rng.standard_normal(i.shape).astype(np.float32)
        for i in session.get_inputs()
    }
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def _divisible(classes: DimensionClasses) -> list[int]:
    return [k for k in range(len(classes.size)) if not classes.block[k] and classes.size[k] > 1]


def _independent(classes: DimensionClasses, seed: int) -> NDArray[np.bool_]:
    """Classes that are divided together, as many as a random order allows."""
    masks = classes.conflicts()
    chosen = np.zeros(len(classes.size), dtype=bool)
    for k in np.random.default_rng(seed).permutation(_divisible(classes)).tolist():
        chosen[k] = not masks[k, chosen].any()
    return chosen


@pytest.mark.parametrize(("spec", "degree"), SPECS)
def test_all_that_can_be_divided_at_once(spec: str, degree: int, tmp_path: Path) -> None:
    whole, model = _model(spec), _model(spec)
    classes = dimension_classes(model, rules_of(model))
    made = shard_graph(model, classes, _independent(classes, seed=degree), degree)
    assert made.operators
    assert {t.shards for t in made.tensors} <= set(range(2, degree + 1))
    expected, found = _run(whole, tmp_path / "a.onnx"), _run(model, tmp_path / "b.onnx")
    assert list(expected) == list(found)
    for name, value in expected.items():
        scale = max(float(np.abs(value).max()), 1e-9)
        assert np.abs(found[name] - value).max() <= TOLERANCE * scale, name


@pytest.mark.parametrize("spec", [T5])
def test_each_class_alone(spec: str, tmp_path: Path) -> None:
    expected = _run(_model(spec), tmp_path / "a.onnx")
    classes = dimension_classes(model := _model(spec), rules_of(model))
    for k in _divisible(classes):
        model = _model(spec)
        classes = dimension_classes(model, rules_of(model))
        chosen = np.zeros(len(classes.size), dtype=bool)
        chosen[k] = True
        shard_graph(model, classes, chosen, 2)
        found = _run(model, tmp_path / f"{k}.onnx")
        for name, value in expected.items():
            scale = max(float(np.abs(value).max()), 1e-9)
            assert np.abs(found[name] - value).max() <= TOLERANCE * scale, (k, name)


def _built(text: str, **weights: NDArray[np.int64]) -> ir.Model:
    """A model with weights of whole numbers; `ids` are indices, all others are floats."""
    proto = onnx.parser.parse_model(text)
    for name, numbers in weights.items():
        array = numbers if name == "ids" else numbers.astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def _numbers(*shape: int) -> NDArray[np.int64]:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape)


QUERIES_KEYS_VALUES = """
<ir_version: 10, opset_import: ["" : 18]>
net (int64[2,5] index) => (float[2,5,18] joined, float[2,5,6] y)
<int64[3] sizes = {6, 6, 6}, int64[4] shape = {2, 5, 3, 2}, int64[3] flat = {2, 5, 6}> {
    table = Gather (t, index)
    p = MatMul (table, w)
    joined = Add (p, b)
    q, k, v = Split <axis = -1> (joined, sizes)
    qk = Mul (q, k)
    s = Sub (qk, v)
    heads = Reshape (s, shape)
    r = Relu (heads)
    f = Reshape (r, flat)
    y = MatMul (f, o)
}
"""
TAKEN_APART_BY_INDEX = QUERIES_KEYS_VALUES.replace(
    "q, k, v = Split <axis = -1> (joined, sizes)",
    """r5 = Reshape (joined, five)
    t5 = Transpose <perm = [2, 0, 1, 3, 4]> (r5)
    q = Gather (t5, zero)
    k = Gather (t5, one)
    v = Gather (t5, two)""",
).replace(
    "<int64[3] sizes = {6, 6, 6},",
    "<int64[5] five = {2, 5, 3, 3, 2}, int64 zero = {0}, int64 one = {1}, int64 two = {2},",
)
PIECES_OF_AN_INPUT = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[4,6] x, float[4,12] z) => (float[4,12] s, float[4,3] y, float[7,3] found, float[4,6] d)
<int64[1] start = {6}, int64[1] end = {12}, int64[1] axis = {1}> {
    twice = Concat <axis = 1> (x, x)
    s = Add (twice, z)
    y = MatMul (s, rows)
    found = Gather (rows, ids)
    half = Slice (s, start, end, axis)
    d = Div (half, x)
}
"""


@pytest.mark.parametrize(
    "text", [QUERIES_KEYS_VALUES, TAKEN_APART_BY_INDEX], ids=["split", "index"]
)
@pytest.mark.parametrize("degree", [2, 3])
def test_queries_keys_and_values_of_one_product(text: str, degree: int, tmp_path: Path) -> None:
    """Three runs of weight and bias, and heads of which the last shard has more."""

    def build() -> ir.Model:
        weights = {
            "t": _numbers(9, 4),
            "w": _numbers(4, 18),
            "b": _numbers(18),
            "o": _numbers(6, 6),
        }
        return _built(text, **weights)

    model = build()
    classes = dimension_classes(model, rules_of(model))
    weight = classes.value_by_name["w"]
    fused = int(classes.of(weight)[1])
    assert (classes.size[fused], classes.runs_of(weight, 1)) == (3, 3)
    chosen = np.arange(len(classes.size)) == fused
    made = shard_graph(model, classes, chosen, degree)
    assert {operator.weight: operator.axis for operator in made.operators} == {
        "w": 1,
        "b": 0,
        "o": 0,
    }
    shards = [v for name, v in model.graph.initializers.items() if name.startswith("w/")]
    columns = [int(value.shape[1]) for value in shards]
    assert columns == {2: [6, 12], 3: [6, 6, 6]}[degree]
    whole = weight.const_value.numpy().reshape(4, 3, 6)
    last = shards[-1].const_value.numpy().reshape(4, 3, -1)
    assert np.array_equal(last, whole[:, :, -last.shape[2] :])
    expected, found = _run(build(), tmp_path / "a.onnx"), _run(model, tmp_path / "b.onnx")
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in expected.items()
    }


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_inputs_outputs_and_tables_in_runs(degree: int, tmp_path: Path) -> None:
    """An index of a table says which run a row is in, and where in it."""

    def build() -> ir.Model:
        ids = np.array([0, 5, 6, 11, -1, -7, 8])
        return _built(PIECES_OF_AN_INPUT, rows=_numbers(12, 3), ids=ids)

    model = build()
    classes = dimension_classes(model, rules_of(model))
    of = classes.value_by_name
    inner = int(classes.of(of["x"])[1])
    assert classes.of(of["rows"])[0] == classes.of(of["z"])[1] == inner
    assert classes.runs_of(of["rows"], 0) == classes.runs_of(of["z"], 1) == 2
    assert classes.block[inner] == 0
    shard_graph(model, classes, np.arange(len(classes.size)) == inner, degree)
    expected, found = _run(build(), tmp_path / "a.onnx"), _run(model, tmp_path / "b.onnx")
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    assert found["found"].tobytes() == expected["found"].tobytes()


TWO_DIRECTIONS = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[5,3,4] x) => (float[5,3,2] y, float[2,3,6] last)
<int64[3] flat = {5, 3, 12}> {
    steps, last = LSTM <hidden_size = 6, direction = "bidirectional"> (x, w, r, b)
    t = Transpose <perm = [0, 2, 1, 3]> (steps)
    f = Reshape (t, flat)
    y = MatMul (f, o)
}
"""


def test_the_directions_of_a_recurrence_are_ops_of_their_own(tmp_path: Path) -> None:
    def build() -> ir.Model:
        shapes = {"w": (2, 24, 4), "r": (2, 24, 6), "b": (2, 48), "o": (12, 2)}
        return _built(TWO_DIRECTIONS, **{name: _numbers(*shape) for name, shape in shapes.items()})

    model = build()
    classes = dimension_classes(model, rules_of(model))
    of = classes.value_by_name
    direction = int(classes.of(of["w"])[0])
    assert classes.of(of["o"])[0] == classes.of(of["last"])[0] == direction
    assert (classes.size[direction], classes.block[direction]) == (2, 0)
    shard_graph(model, classes, np.arange(len(classes.size)) == direction, 2)
    shards = [node for node in model.graph if node.op_type == "LSTM"]
    assert [node.attributes.get_string("direction", "") for node in shards] == [
        "forward",
        "reverse",
    ]
    expected, found = _run(build(), tmp_path / "a.onnx"), _run(model, tmp_path / "b.onnx")
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)


def test_a_bias_that_old_opsets_ask_for_is_added_once(tmp_path: Path) -> None:
    """Before opset 11, the third operand of a `Gemm` cannot be left out."""
    text = """
        <ir_version: 4, opset_import: ["" : 9]>
        net (float[3,8] x) => (float[3,5] y) { y = Gemm (x, w, b) }
    """

    def build() -> ir.Model:
        return _built(text, w=_numbers(8, 5), b=_numbers(5))

    model = build()
    classes = dimension_classes(model, rules_of(model))
    rows = int(classes.of(classes.value_by_name["w"])[0])
    shard_graph(model, classes, np.arange(len(classes.size)) == rows, 3)
    assert sum(node.op_type == "Gemm" for node in model.graph) == 3
    expected, found = _run(build(), tmp_path / "a.onnx"), _run(model, tmp_path / "b.onnx")
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-5)


def test_rows_of_a_table_of_bytes_are_added_as_wider_numbers(tmp_path: Path) -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 13]>
        net (float[3] x) => (uint8[7,3] y) { y = Gather (rows, ids) }
    """

    def build() -> ir.Model:
        proto = onnx.parser.parse_model(text)
        rows = np.random.default_rng(3).integers(0, 256, (12, 3)).astype(np.uint8)
        for name, array in (("rows", rows), ("ids", np.array([0, 5, 6, 11, -1, -7, 8]))):
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        return ir.from_proto(onnx.shape_inference.infer_shapes(proto))

    model = build()
    classes = dimension_classes(model, rules_of(model))
    rows = int(classes.of(classes.value_by_name["rows"])[0])
    shard_graph(model, classes, np.arange(len(classes.size)) == rows, 3)
    expected, found = _run(build(), tmp_path / "a.onnx"), _run(model, tmp_path / "b.onnx")
    assert found["y"].tobytes() == expected["y"].tobytes()


def test_whole_numbers_give_equal_bits(tmp_path: Path) -> None:
    """Sums of whole numbers do not depend on their order."""
    text = """
        <ir_version: 10, opset_import: ["" : 18]>
        net (int64[2,5] ids) => (float[2,5,7] y)
        {
            table = Gather (w, ids)
            wide = MatMul (table, a)
            hidden = Relu (wide)
            narrow = MatMul (hidden, b)
            y = Add (narrow, c)
        }
    """
    rng = np.random.default_rng(0)
    shapes = {"w": (11, 6), "a": (6, 10), "b": (10, 7), "c": (7,)}

    def build() -> ir.Model:
        model = ir.from_proto(onnx.parser.parse_model(text))
        weights = {}
        for name, shape in shapes.items():
            numbers = np.random.default_rng(len(name)).integers(-3, 4, shape).astype(np.float32)
            weights[name] = ir.Tensor(numbers, name=name)
        for node in model.graph:
            for index, value in enumerate(node.inputs):
                if value is not None and value.name in weights and not value.is_initializer():
                    tensor = weights[value.name]
                    value.const_value = tensor
                    value.shape, value.type = tensor.shape, ir.TensorType(tensor.dtype)
                    if value.name not in model.graph.initializers:
                        model.graph.register_initializer(value)
                    node.replace_input_with(index, model.graph.initializers[value.name])
        return ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(model)))

    del rng
    expected = _run(build(), tmp_path / "a.onnx")["y"]
    model = build()
    classes = dimension_classes(model, rules_of(model))
    divided = _independent(classes, seed=1)
    assert divided[classes.of(classes.value_by_name["a"])[1]]
    shard_graph(model, classes, divided, 3)
    assert _run(model, tmp_path / "b.onnx")["y"].tobytes() == expected.tobytes()
