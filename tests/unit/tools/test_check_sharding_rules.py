"""The tool that divides the ops of ONNX's own node tests."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx.backend.test.case.node
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("check_sharding_rules")


def case(operator, values, **attributes):
    names = [f"x{i}" for i in range(len(values))]
    node = helper.make_node(operator, names, ["y"], **attributes)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "case", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return SimpleNamespace(name=f"test_{operator.lower()}", model=model, data_sets=[(values, [])])


def test_cases_become_examples(tool):
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    taken = case("ReduceSum", [data, np.array([1])], keepdims=0)
    example = tool.example_of(taken.model, taken.data_sets[0][0])
    assert (example.operator, example.attributes, example.version) == (
        "ReduceSum",
        {"keepdims": 0},
        21,
    )
    assert example.operands[1] == (1,)
    left_out = case("NonZero", [data])
    assert tool.example_of(left_out.model, left_out.data_sets[0][0]) is None
    random = case("Dropout", [data, np.array(0.5, np.float32), np.array(True)])
    assert tool.example_of(random.model, random.data_sets[0][0]) is None


def test_what_was_found_is_counted(tool, monkeypatch, capsys):
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    cases = [
        case("Softmax", [data]),
        case("NonZero", [data]),
        case("Add", [data, np.zeros((5, 7), np.float32)]),
    ]
    monkeypatch.setattr(onnx.backend.test.case.node, "collect_testcases", lambda _: cases)
    monkeypatch.setattr("sys.argv", ["check"])
    assert tool.main() == 0
    counted = "3 cases, 1 left out, 1 not run as a whole, 1 divided, 0 different"
    assert counted in capsys.readouterr().out
