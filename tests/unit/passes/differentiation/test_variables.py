import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_passes.differentiation.variables import chosen_variables, make_constant, make_inputs

TEXT = """<ir_version: 8, opset_import: ["" : 18]> graph (float[1,2,3] x) => (float[1,2,3] y)
<float[2] scale = {1.0, 2.0}, float[2] shift = {0.0, 0.0}, float[2] mean = {0.0, 0.0},
 float[2] var = {1.0, 1.0}, float eps = {0.1}, int64[3] extents = {1, 2, 3}> {
    n = BatchNormalization(x, scale, shift, mean, var)
    wide = ConstantOfShape<value = float {0.5}>(extents)
    m = Mul(n, wide)
    y = Add(m, eps)
}"""


def names(values):
    return [value.name for value in values]


@pytest.fixture
def model():
    found = ir.from_onnx_text(TEXT)
    for value in (v for node in found.graph for v in node.outputs):
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([1, 2, 3])
    return found


def test_statistics_and_scalars_are_no_variables(model):
    assert names(chosen_variables(model, "*")) == ["scale", "shift"]


def test_scales_of_a_resize_are_no_variables():
    found = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["" : 18]> graph (float[1,2,3] x) => (float[1,2,6] y)
<float[3] roi = {0.0, 0.0, 0.0}, float[3] scales = {1.0, 1.0, 2.0}, float[2,1] w = {1.0, 2.0}> {
    m = Mul(x, w)
    y = Resize(m, roi, scales)
}"""
    )
    assert names(chosen_variables(found, "*")) == ["w"]
    assert names(chosen_variables(found, "scales")) == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("eps", ["eps"]),
        ("s*|!shift", ["scale"]),
        ("!shift|s*", ["scale", "shift"]),
        ("e*|s*", ["scale", "shift", "eps"]),
        ("mean", []),
        ("extents", []),
    ],
)
def test_patterns(model, pattern, expected):
    assert names(chosen_variables(model, pattern)) == expected


def test_fills_are_variables_where_weights_are_shapes_alone(model):
    model.metadata_props[WEIGHTS_KEY] = SHAPE_ONLY
    assert names(chosen_variables(model, "*")) == ["scale", "shift", "wide"]


def test_weights_become_inputs_and_go_back(model):
    graph = model.graph
    scale, shift = chosen_variables(model, "*")
    values = make_inputs(graph, [scale, shift])
    assert names(graph.inputs) == ["x", "scale", "shift"]
    assert "scale" not in graph.initializers
    np.testing.assert_array_equal(values[scale].numpy(), [1.0, 2.0])
    make_constant(graph, scale, values[scale])
    assert names(graph.inputs) == ["x", "shift"]
    np.testing.assert_array_equal(graph.initializers["scale"].const_value.numpy(), [1.0, 2.0])


def test_a_fill_becomes_an_input_with_its_elements(model):
    graph = model.graph
    (fill,) = (node.outputs[0] for node in graph if node.op_type == "ConstantOfShape")
    ((made, value),) = make_inputs(graph, [fill]).items()
    assert made.name == "wide"
    assert "ConstantOfShape" not in [node.op_type for node in graph]
    assert [node.op_type for node in made.consumers()] == ["Mul"]
    np.testing.assert_array_equal(value.numpy(), np.full((1, 2, 3), 0.5, np.float32))
