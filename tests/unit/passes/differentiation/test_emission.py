import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.graph.invariants import check_invariants
from mcm_passes.differentiation.emission import EmissionError, Emitter


@pytest.fixture
def model():
    found = ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 18]> graph (float[2,3] x, float[3] "grad/n/0") => '
        '(float[2,3] y) { y = Add(x, "grad/n/0") }'
    )
    for node in found.graph:
        node.name = "n"
    return found


def shape(value):
    return list(value.shape.numpy())


def test_names_are_of_the_scope_and_new(model):
    ops = Emitter(model.graph, 18)
    ops.enter("grad/n")
    first = ops.op("Neg", model.graph.inputs[0])
    second, third = ops.ops(2, "Split", first, axis=1, num_outputs=2)
    ops.enter("clip")
    fourth = ops.op("Exp", third)
    names = [value.name for value in (first, second, third, fourth)]
    assert names == ["grad/n/0_2", "grad/n/1", "grad/n/1.1", "clip/0"]
    assert (shape(second), shape(third)) == ([2, 2], [2, 1])
    assert [node.op_type for node in ops.finish()] == ["Neg", "Split", "Exp"]
    assert check_invariants(model) == []


def test_equal_constants_are_one(model):
    ops = Emitter(model.graph, 18)
    x = model.graph.inputs[0]
    assert ops.like(x, 2.0) is ops.constant(np.float32(2.0))
    assert ops.like(x, 2.0) is not ops.constant(np.float64(2.0))
    assert ops.constant(np.zeros(2, np.float32)) is not ops.constant(np.zeros((2, 1), np.float32))


def test_large_equal_elements_are_filled_when_the_model_runs(model):
    ops = Emitter(model.graph, 18)
    zeros = ops.constant(np.zeros((100, 100), np.float32))
    assert zeros.producer().op_type == "ConstantOfShape"
    assert shape(zeros) == [100, 100]
    assert ops.constant(np.arange(10_000)).producer() is None


@pytest.mark.parametrize(
    ("wide", "narrow", "kinds"),
    [
        ([2, 3], [2, 3], []),
        ([2, 3], [3], ["ReduceSum"]),
        ([2, 3], [2, 1], ["ReduceSum"]),
        ([4, 2, 3], [2, 1], ["ReduceSum", "Reshape"]),
        ([2, 3], [], ["ReduceSum"]),
        ([1, 3], [3], ["ReduceSum"]),
    ],
)
def test_reduced_to_what_was_broadcast(model, wide, narrow, kinds):
    ops = Emitter(model.graph, 18)
    gradient = ops.constant(np.ones(wide, np.float32))
    operand = ops.constant(np.ones(narrow, np.float32) * 2)
    reduced = ops.reduced_to(gradient, operand)
    assert shape(reduced) == narrow
    assert [node.op_type for node in ops.finish()] == kinds


def test_an_op_that_is_not_valid_is_told(model):
    ops = Emitter(model.graph, 18)
    with pytest.raises(EmissionError, match=r"MatMul of FLOAT\[2, 3\], FLOAT\[2, 3\]"):
        ops.op("MatMul", model.graph.inputs[0], model.graph.inputs[0])


def test_a_value_without_a_static_shape_is_told(model):
    model.graph.inputs[0].shape = ir.Shape(["N", 3])
    with pytest.raises(ValueError, match="'x' is not static"):
        Emitter(model.graph, 18).operand(model.graph.inputs[0])
