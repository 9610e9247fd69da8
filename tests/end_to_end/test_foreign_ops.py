"""Ops that only somebody's own runtime knows: placed, costed by bytes, never called verified."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler import CompileOptions, compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError, Severity

VALUE = helper.make_tensor_value_info
SIZE = 64


def dense(nodes, weights, source, count, prefix):
    """`count` times MatMul and Relu after `source`; returns the last value."""
    for i in range(count):
        weight = f"{prefix}w{i}"
        weights.append(numpy_helper.from_array(np.ones((SIZE, SIZE), np.float32), weight))
        nodes.append(helper.make_node("MatMul", [source, weight], [f"{prefix}m{i}"]))
        nodes.append(helper.make_node("Relu", [f"{prefix}m{i}"], [f"{prefix}r{i}"]))
        source = f"{prefix}r{i}"
    return source


def model_with_a_foreign_chain(known=("back",), declare_output=True):
    """Dense layers, three foreign ops with a way around them, and dense layers again.

    Args:
        known: values that a value_info describes.
        declare_output: whether the graph output says its type.
    """
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    head = dense(nodes, weights, "x", 4, "a")
    nodes += [
        helper.make_node("Mystery", [head], ["c0"], domain="acme"),
        helper.make_node("Mystery", ["c0"], ["c1"], domain="acme"),
        helper.make_node("Shape", ["c0"], ["around"]),
        helper.make_node("Mystery", ["c1", "around"], ["c2"], domain="acme"),
        helper.make_node("Back", ["c2"], ["back"], domain="acme"),
    ]
    tail = dense(nodes, weights, "back", 4, "b")
    output = VALUE(tail, TensorProto.FLOAT, [8, SIZE])
    if not declare_output:
        output.ClearField("type")
    graph = helper.make_graph(
        nodes, "g", [VALUE("x", TensorProto.FLOAT, [8, SIZE])], [output], weights,
        value_info=[VALUE(name, TensorProto.FLOAT, [8, SIZE]) for name in known],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports)


@pytest.fixture
def compiled(tmp_path):
    def make(model, **options):
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        folder = tmp_path / "out"
        result = compile_model(
            path, "mcm4", CompileOptions(replicas=1, round=1, **options), output=folder
        )
        return result, folder

    return make


@pytest.mark.parametrize("partitioner", ["dp", "local_search"])
@pytest.mark.parametrize("routing", ["relay", "strict"])
def test_values_without_a_type_stay_on_one_chip(compiled, partitioner, routing):
    result, folder = compiled(
        model_with_a_foreign_chain(), partitioner=partitioner, routing=routing
    )
    assert len(result.chips) > 1
    (home,) = [c for c in result.chips if any(n.domain == "acme" for n in c.model.graph)]
    ops = [n.op_type for n in home.model.graph]
    # Shape lies on a path between two of the foreign ops, and its own result has a type.
    assert [op for op in ops if op in ("Mystery", "Shape", "Back")].count("Mystery") == 3
    assert "Shape" in ops
    for value in (*home.model.graph.inputs, *home.model.graph.outputs):
        assert value.type is not None
    for file in folder.glob("chip_*.onnx"):
        onnx.checker.check_model(onnx.load(file))
    codes = {d.code: d for d in result.diagnostics}
    assert codes["MCM-P010"].severity is Severity.WARNING
    assert "'acme.Mystery'" in "".join(
        d.message for d in result.diagnostics if d.code == "MCM-P010"
    )
    note = codes["MCM-P014"]
    assert note.severity is Severity.NOTE
    assert "the first is 'c0'" in note.message
    assert "value_info" in note.hint


def test_what_onnxruntime_cannot_run_is_not_called_verified(compiled):
    result, folder = compiled(model_with_a_foreign_chain())
    assert result.verification.skipped == "onnxruntime has no op 'acme:Mystery'"
    (warning,) = [d for d in result.diagnostics if d.code == "MCM-V021"]
    assert warning.severity is Severity.WARNING
    report = check_folder(folder)
    assert report.holds, report.diagnostics
    assert not report.complete
    (step,) = [s for s in report.steps if s.skipped]
    assert step.name == "equality"
    assert [d.code for d in report.diagnostics] == ["MCM-V021"]


def test_with_value_infos_foreign_ops_are_distributed(compiled):
    names = ("c0", "c1", "c2", "back")
    result, _ = compiled(model_with_a_foreign_chain(known=names))
    assert "MCM-P014" not in {d.code for d in result.diagnostics}
    units = [m for m in result.problem.members if any("Mystery" in name for name in m)]
    assert len(units) == 3


def test_an_output_of_the_graph_without_a_type_is_refused(compiled):
    model = model_with_a_foreign_chain(known=(), declare_output=False)
    with pytest.raises(CompileError) as caught:
        compiled(model)
    error = caught.value.diagnostics[0]
    assert error.code == "MCM-P012"
    assert "'br3'" in error.message
    assert error.at
    assert error.hint


def test_a_misspelt_op_of_onnx_itself_is_refused(compiled):
    model = model_with_a_foreign_chain(known=("c0", "c1", "c2", "back"))
    for node in model.graph.node:
        if node.domain == "acme":
            node.domain = ""
    with pytest.raises(CompileError) as caught:
        compiled(model)
    assert caught.value.diagnostics[0].code == "MCM-V001"


@pytest.mark.parametrize("op", ["Adam", "Momentum", "Adagrad"])
def test_training_ops_are_placed_and_not_verified(compiled, op):
    """onnxruntime's inference build has no kernel for any of them."""
    state = {"Adam": ["v", "h"], "Momentum": ["v"], "Adagrad": ["h"]}[op]
    attributes = {"alpha": 0.9, "beta": 0.1, "mode": "standard", "norm_coefficient": 0.0}
    wanted = attributes if op == "Momentum" else {}
    inputs = ["x", "g", *state]
    node = helper.make_node(
        op, ["r", "t", *inputs], [f"{name}_new" for name in ("x", *state)],
        domain="ai.onnx.preview.training", **wanted,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [VALUE("r", TensorProto.FLOAT, []), VALUE("t", TensorProto.INT64, [])]
        + [VALUE(name, TensorProto.FLOAT, [2]) for name in inputs],
        [VALUE(name, TensorProto.FLOAT, [2]) for name in node.output],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)]
    result, folder = compiled(helper.make_model(graph, ir_version=8, opset_imports=imports))
    assert result.verification.skipped == f"onnxruntime has no op 'ai.onnx.preview.training:{op}'"
    assert check_folder(folder).holds
