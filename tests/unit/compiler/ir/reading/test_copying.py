"""Models in memory, however a caller built them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model
from mcm_compiler.graph.constants import subgraphs
from mcm_compiler.ir.reading.importer import import_model

FLOATS = ir.TensorType(ir.DataType.FLOAT)
X = np.array([-1, 0, 1, 2], np.float32)


def _value(name: str) -> ir.Value:
    return ir.Value(name=name, type=FLOATS, shape=ir.Shape([4]))


def _node(kind: str, out: str, *read: ir.Value, **bodies: ir.Graph) -> ir.Node:
    graphs = [ir.AttrGraph(name, graph) for name, graph in bodies.items()]
    return ir.Node("", kind, read, graphs, outputs=[_value(out)], name=out)


def _model(inputs: list[ir.Value], nodes: list[ir.Node], last: ir.Node) -> ir.Model:
    graph = ir.Graph(inputs, list(last.outputs), nodes=nodes, opset_imports={"": 17}, name="g")
    return ir.Model(graph, ir_version=8)


def _refused(model: ir.Model) -> list[tuple[str, str]]:
    with pytest.raises(CompileError) as caught:
        import_model(model, "m")
    return [(fault.code, fault.message) for fault in caught.value.diagnostics]


def test_nodes_in_any_order_are_taken_and_the_given_order_stays() -> None:
    x, go = _value("x"), ir.Value(name="go", type=ir.TensorType(ir.DataType.BOOL))
    go.shape = ir.Shape([])
    first = _node("Relu", "a", x)
    inner = _node("Exp", "t", first.outputs[0])
    outer = _node("Neg", "u", inner.outputs[0])
    other = _node("Abs", "o", x)
    branch = _node(
        "If",
        "i",
        go,
        then_branch=ir.Graph([], list(outer.outputs), nodes=[outer, inner], name="yes"),
        else_branch=ir.Graph([], list(other.outputs), nodes=[other], name="no"),
    )
    last = _node("Neg", "y", branch.outputs[0])
    given = _model([x, go], [last, branch, first], last)
    model, _ = import_model(given, "m")
    assert [node.name for node in given.graph] == ["y", "i", "a"]
    assert [node.name for node in subgraphs(branch)[0]] == ["u", "t"]
    assert [node.op_type for node in model.graph] == ["Relu", "If", "Neg"]
    found = run_model(ir.to_proto(model), {"x": X, "go": np.array(True)})["y"]
    np.testing.assert_allclose(found, np.exp(np.maximum(X, 0)), rtol=1e-6)


def test_values_that_nothing_makes_and_circles_are_told() -> None:
    x = _value("x")
    last = _node("Add", "y", x, _value("elsewhere"))
    (fault,) = _refused(_model([x], [last], last))
    assert fault == ("MCM-I011", "the value 'elsewhere' is read but never produced")
    x = _value("x")
    first = _node("Relu", "a", x)
    last = _node("Neg", "y", first.outputs[0])
    first.replace_input_with(0, last.outputs[0])
    assert [code for code, _ in _refused(_model([x], [first, last], last))] == ["MCM-I012"]


def test_a_value_of_another_model_is_told_though_its_name_is_known() -> None:
    x = _value("x")
    last = _node("Neg", "y", _value("x"))
    ((code, message),) = _refused(_model([x], [last], last))
    assert code == "MCM-I003"
    assert "'y'" in message or '"x"' in message


def test_graphs_that_are_nested_too_deep_are_told() -> None:
    x, go = _value("x"), ir.Value(name="go", type=ir.TensorType(ir.DataType.BOOL))
    last = _node("Neg", "v", x)
    for level in range(400):
        body = {
            name: ir.Graph([], list(node.outputs), nodes=[node], name=f"{name}{level}")
            for name, node in (("then_branch", last), ("else_branch", _node("Abs", f"e{level}", x)))
        }
        last = _node("If", f"i{level}", go, **body)
    assert [code for code, _ in _refused(_model([x, go], [last], last))] == ["MCM-I014"]


def test_a_weight_whose_file_is_gone_is_no_fault_of_an_output_folder(tmp_path: Path) -> None:
    tensor = ir.ExternalTensor(
        "gone.bin", 0, 16, ir.DataType.FLOAT, shape=ir.Shape([4]), name="w", base_dir=tmp_path
    )
    x, weight = _value("x"), ir.Value(name="w", const_value=tensor)
    last = _node("Add", "y", x, weight)
    model = _model([x], [last], last)
    model.graph.register_initializer(weight)
    ((code, message),) = _refused(model)
    assert code == "MCM-I020"
    assert "'gone.bin' cannot be read" in message
