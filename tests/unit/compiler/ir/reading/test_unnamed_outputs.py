"""Outputs without a name: an op leaves them away, a constant or a function may not know how to."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.ir.reading.importer import import_model, import_onnx
from mcm_compiler.options import CompileOptions

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
ONE = numpy_helper.from_array(np.array([1], np.int64), "one")
YES = numpy_helper.from_array(np.array(True), "yes")
RELU = helper.make_node("Relu", ["x"], ["y"])


def model_of(nodes, functions=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [2, 3])],
        [value("y", TensorProto.FLOAT, None)],
        [ONE, YES],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def function_of(nodes, outputs):
    return helper.make_function(
        "local", "f", ["a"], outputs, nodes, [helper.make_opsetid("", 17)]
    )  # fmt: skip


def imported(proto, tmp_path):
    onnx.save(proto, tmp_path / "m.onnx")
    return import_onnx(tmp_path / "m.onnx")[0]


@pytest.mark.parametrize(
    ("nodes", "functions"),
    [
        ([helper.make_node("Constant", [], [""], value_float=1.0), RELU], []),
        (
            [helper.make_node("f", ["x"], [""], domain="local"), RELU],
            [function_of([helper.make_node("Neg", ["a"], ["b"])], ["b"])],
        ),
        (
            [helper.make_node("f", ["x"], ["", "y"], domain="local")],
            [function_of([helper.make_node("Split", ["a"], ["b", "c"], axis=0)], ["b", "c"])],
        ),
    ],
)
def test_outputs_that_onnxruntime_lets_be_unnamed(nodes, functions, tmp_path):
    proto = model_of(nodes, functions)
    expected = run_model(proto, {"x": X})["y"]
    for model in (imported(proto, tmp_path), import_model(ir.from_proto(proto), "m")[0]):
        assert same_bits(expected, run_model(ir.to_proto(model), {"x": X})["y"])


def test_names_that_are_given_are_new():
    nodes = [
        helper.make_node("Constant", [], [""], value_float=1.0),
        helper.make_node("Relu", ["x"], ["unused"]),
        helper.make_node("Constant", [], [""], value_float=2.0),
        helper.make_node("Neg", ["unused"], ["y"]),
    ]
    model, _ = import_model(ir.from_proto(model_of(nodes)), "m")
    assert {"unused_2", "unused_3"} <= set(model.graph.initializers)


def branch(name, nodes):
    result = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
    return helper.make_graph([*nodes, helper.make_node("Relu", ["x"], [name])], name, [], [result])


@pytest.mark.parametrize(
    "idle",
    [
        helper.make_node("Dropout", ["x"], ["", ""]),
        helper.make_node("TopK", ["x", "one"], ["", ""]),
        helper.make_node("MatMul", ["x", "x"], [""]),
        helper.make_node("Gelu", ["x"], [""], domain="local"),
        helper.make_node("Constant", [], [""], value_float=1.0),
    ],
)
def test_idle_ops_do_not_stop_inference_of_a_branch_that_is_inlined(idle, tmp_path):
    branches = {"then_branch": branch("t", [idle]), "else_branch": branch("e", [idle])}
    proto = model_of([idle, helper.make_node("If", ["yes"], ["y"], **branches)])
    model = imported(proto, tmp_path)
    assert "If" not in [node.op_type for node in model.graph]
    assert model.graph.outputs[0].dtype is ir.DataType.FLOAT
    assert model.graph.outputs[0].shape == ir.Shape([2, 3])


def test_statistics_of_a_training_that_are_left_away_do_not_crash_onnxruntime(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        m (float[2,3,4] x) => (float[2,3,4] y, float[3] var2)
        <float[3] s = {1,1,1}, float[3] b = {0,0,0}, float[3] mean = {1,2,3},
         float[3] var = {1,1,2}> {
        n, gone, var2 = BatchNormalization <training_mode = 1> (x, s, b, mean, var)
        y = Relu (n) }""")
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
    expected = run_model(model, feeds)
    model.graph.node[0].output[1] = ""
    actual = run_model(ir.to_proto(imported(model, tmp_path)), feeds)
    assert all(same_bits(expected[name], actual[name]) for name in ("y", "var2"))


STATISTICS = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    m (float[2,3,4] x) => (float[2,3,4] y, float[3] var2)
    <float[3] s = {1,1,1}, float[3] b = {0,0,0}, float[3] mean = {1,2,3}, float[3] var = {1,1,2}> {
    y, var2 = local.f <mode = 1> (x, s, b, mean, var) }
    <domain: "local", opset_import: ["" : OPSET]>
    f <mode> (x, s, b, mean, var) => (y, var2) {
    y, gone, var2 = BatchNormalization <training_mode : int = @mode> (x, s, b, mean, var) }"""


@pytest.mark.parametrize("opset", [17, 16])
def test_nor_do_they_within_functions_that_are_inlined_or_stay(opset, tmp_path):
    """A function of another opset stays a function."""
    model = onnx.parser.parse_model(STATISTICS.replace("OPSET", str(opset)))
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
    expected = run_model(model, feeds)
    model.functions[0].node[0].output[1] = ""
    actual = run_model(ir.to_proto(imported(model, tmp_path)), feeds)
    assert all(same_bits(expected[name], actual[name]) for name in ("y", "var2"))
    folder = tmp_path / "out"
    compile_model(tmp_path / "m.onnx", "mcm4", CompileOptions(level=0), output=folder)
    report = check_folder(folder, model=tmp_path / "m.onnx")
    assert report.holds, report.diagnostics
    # onnxruntime crashes on the file itself under its own session options, and on nothing else.
    assert ["stock session options" in d.message for d in report.unproven] == [True]
