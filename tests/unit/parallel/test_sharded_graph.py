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
from mcm_compiler.ir.writer import write_with_data
from mcm_compiler.options import CompileOptions
from mcm_passes.parallel.sharded_graph import shard_graph
from mcm_passes.sharding.dimension_classes import DimensionClasses, dimension_classes
from mcm_passes.sharding.graph_rules import rules_of

T5 = (
    "zoo:t5{layers=1,decoder_layers=1,hidden=64,heads=4,head_width=16,intermediate=96,vocab=101,"
    "seq=8,decoder_seq=6}"
)
SPECS = [
    ("zoo:bert-tiny{seq=16}", 2),
    ("zoo:gpt2-tiny", 3),
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
        against = [
            j for j in np.flatnonzero(chosen).tolist() if int(masks[k, j >> 6]) >> (j & 63) & 1
        ]
        chosen[k] = not against
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
