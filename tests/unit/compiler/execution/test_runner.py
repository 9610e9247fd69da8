"""Running models, and telling equal bits from nearly equal ones."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import max_abs_error, run_model, same_bits


def relu():
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.FLOAT, [3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_run_ignores_feeds_that_the_model_does_not_take():
    x = np.array([-1, 0, 2], np.float32)
    out = run_model(relu(), {"x": x, "other": x})
    assert out["y"].tolist() == [0, 0, 2]


def test_runtime_refusals_are_diagnosed():
    with pytest.raises(CompileError) as caught:
        run_model(b"nonsense", {})
    assert caught.value.diagnostics[0].code == "MCM-V001"
    with pytest.raises(CompileError) as caught:
        run_model(relu(), {"x": np.zeros(4, np.float32)})
    assert caught.value.diagnostics[0].code == "MCM-V002"


def test_a_refused_file_is_named_without_its_folder(tmp_path):
    path = tmp_path / "chip_00.onnx"
    path.write_bytes(b"nonsense")
    with pytest.raises(CompileError) as caught:
        run_model(path, {})
    (fault,) = caught.value.diagnostics
    assert fault.at == "chip_00.onnx"
    assert str(tmp_path) not in fault.message


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), True),
        (np.float32([1, 2]), np.float64([1, 2]), False),
        (np.float32([1, 2]), np.float32([[1, 2]]), False),
        (np.float32([np.nan]), np.array([0xFFC00001], np.uint32).view(np.float32), True),
        (np.float32([0.0]), np.float32([-0.0]), False),
        (np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)), False),
        (np.float32(3), np.float32(3), True),
        (np.array(["a"], object), np.array(["a"], object), True),
        (np.array(["a"], object), np.array(["b"], object), False),
        ([np.int64([1])], [np.int64([1])], True),
        ([np.int64([1])], [], False),
        ({"k": 1.0}, {"k": 1.0}, True),
    ],
)
def test_same_bits(left, right, same):
    assert same_bits(left, right) is same


def test_max_abs_error():
    assert max_abs_error(np.float32([1, np.nan]), np.float32([1.5, np.nan])) == 0.5
    assert max_abs_error(np.float32([np.inf]), np.float32([np.inf])) == 0
    assert max_abs_error(np.float32([np.nan]), np.float32([1])) == float("inf")
    assert max_abs_error(np.float32([1]), np.float64([1])) == float("inf")
