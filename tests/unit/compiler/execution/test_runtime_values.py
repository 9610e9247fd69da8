"""Values that NumPy has no type for, to and from onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from mcm_compiler.execution.runner import max_abs_error, run_model, same_bits


def identity(dtype):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value("x", dtype, [2, 3])],
        [value("y", dtype, [2, 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_small_floats_pass_through(name):
    dtype = getattr(TensorProto, name)
    x = np.array([[0.5, -2, 1], [0, 4, -1]]).astype(helper.tensor_dtype_to_np_dtype(dtype))
    y = run_model(identity(dtype), {"x": x})["y"]
    assert y.dtype == x.dtype
    assert same_bits(x, y)


def test_four_bit_integers_are_packed_and_unpacked():
    value = helper.make_tensor_value_info
    scale = helper.make_tensor("s", TensorProto.FLOAT, [], [1.0])
    there = helper.make_node("DequantizeLinear", ["x", "s"], ["f"])
    back = helper.make_node("QuantizeLinear", ["f", "s"], ["y"], output_dtype=TensorProto.INT4)
    graph = helper.make_graph(
        [there, back], "g", [value("x", TensorProto.INT4, [5])],
        [value("f", TensorProto.FLOAT, [5]), value("y", TensorProto.INT4, [5])], [scale],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.array([1, -8, 7, 0, -3]).astype(helper.tensor_dtype_to_np_dtype(TensorProto.INT4))
    out = run_model(model, {"x": x})
    assert out["f"].tolist() == [1, -8, 7, 0, -3]
    assert same_bits(out["y"], x)


def test_an_optional_without_a_value():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_value_info("x", kind)],
        [helper.make_value_info("y", kind)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert run_model(model, {"x": None}) == {"y": None}


def test_models_without_outputs_run():
    """As of a chip that holds nothing but ops whose results nobody reads."""
    dead = identity(TensorProto.FLOAT)
    del dead.graph.output[:]
    assert run_model(dead, {"x": np.ones((2, 3), np.float32)}) == {}


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E5M2"])
def test_small_floats_are_compared_as_numbers(name):
    kind = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    left = np.array([1, np.nan, -2]).astype(kind)
    right = np.array([1, np.nan, -2.5]).astype(kind)
    assert same_bits(left, left.copy())
    assert not same_bits(left, right)
    assert max_abs_error(left, right) == 0.5


def test_lists_differ_by_their_worst_element():
    left = [np.float32([1, 2]), np.float32([3])]
    right = [np.float32([1, 2]), np.float32([5])]
    assert max_abs_error(left, right) == 2
    assert max_abs_error(left, left[:1]) == float("inf")
    assert max_abs_error(np.float32(1), np.float32(3)) == float("inf")
    assert max_abs_error(np.array(1, np.float32), np.array(3, np.float32)) == 2
