"""Opsets that are newer than onnxruntime loads, taken down to the newest that it does."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_model, import_onnx
from mcm_compiler.ir.reading.opset_conversion import lower_opset
from mcm_compiler.ir.reading.versions import newest_opset

NEWEST = onnx.defs.onnx_opset_version()
VALUE = helper.make_tensor_value_info

pytestmark = pytest.mark.skipif(
    newest_opset() >= NEWEST, reason="onnxruntime loads all opsets of the installed onnx"
)


def _renewed_op() -> str:
    """An op with one float input that the newest opset has renewed."""
    for name in ("Celu", "ReduceLogSumExp", "Cast"):
        if onnx.defs.get_schema(name, NEWEST).since_version > newest_opset():
            return name
    pytest.skip("no op that these tests know has changed since")


def _model(nodes, *, opset=NEWEST, functions=()):
    weight = numpy_helper.from_array(np.full((64, 64), 0.25, np.float32), "w")
    graph = helper.make_graph(
        nodes, "g", [VALUE("x", TensorProto.FLOAT, [2, 64])], [VALUE("y", TensorProto.FLOAT, None)],
        [weight],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def _plain():
    return [
        helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"),
        helper.make_node("Relu", ["m"], ["y"], "relu"),
    ]


def _with_renewed():
    one = helper.make_node("Identity", ["x"], ["i"], "copy")
    one.metadata_props.add(key="kept", value="yes")
    option = {"to": TensorProto.FLOAT} if _renewed_op() == "Cast" else {}
    return [
        one,
        helper.make_node("MatMul", ["i", "w"], ["m"], "matmul"),
        helper.make_node(_renewed_op(), ["m"], ["y"], "renewed", **option),
    ]


def _outputs(proto):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    return session.run(None, {"x": x})


def test_a_model_whose_ops_have_not_changed_gets_another_number(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(_model(_plain()), path)
    model, notes = import_onnx(path)
    assert [note.code for note in notes] == ["MCM-I048"]
    assert f"opset {NEWEST} was converted to {newest_opset()}" in notes[0].message
    assert "no op that it uses has changed since" in notes[0].message
    assert model.graph.opset_imports[""] == newest_opset()
    in_memory, notes = import_model(ir.from_proto(_model(_plain())), "mine")
    assert [note.code for note in notes] == ["MCM-I048"]
    assert in_memory.graph.opset_imports[""] == newest_opset()


def test_renewed_ops_are_written_anew_and_others_stay():
    proto = _model(_with_renewed())
    given = onnx.ModelProto.FromString(proto.SerializeToString())
    (note,) = lower_opset(proto)
    assert f"onnx's version converter took care of {_renewed_op()}" in note.message
    assert [node.name for node in proto.graph.node] == ["copy", "matmul", "renewed"]
    assert proto.graph.node[0].metadata_props[0].value == "yes"
    assert proto.graph.initializer == given.graph.initializer
    assert proto.graph.input == given.graph.input
    # The same ops with the older number from the start.
    older = _model(_with_renewed(), opset=newest_opset())
    np.testing.assert_array_equal(_outputs(proto)[0], _outputs(older)[0])


def test_models_that_onnxruntime_loads_are_left_alone():
    proto = _model(_plain(), opset=newest_opset())
    before = proto.SerializeToString()
    assert lower_opset(proto) == []
    assert proto.SerializeToString() == before


def test_functions_are_renumbered_too():
    imports = [helper.make_opsetid("", NEWEST)]
    relu = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("own", "F", ["a"], ["b"], relu, imports)
    proto = _model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[function])
    (note,) = lower_opset(proto)
    assert note.code == "MCM-I048"
    assert proto.functions[0].opset_import[0].version == newest_opset()


def _branch(name):
    node = helper.make_node(_renewed_op(), ["x"], [name], to=TensorProto.FLOAT) if (
        _renewed_op() == "Cast"
    ) else helper.make_node(_renewed_op(), ["x"], [name])  # fmt: skip
    return helper.make_graph([node], name, [], [VALUE(name, TensorProto.FLOAT, None)])


def _in_a_branch():
    condition = helper.make_node(
        "Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))
    )
    choice = helper.make_node(
        "If", ["c"], ["y"], "choice", then_branch=_branch("t"), else_branch=_branch("e")
    )
    return _model([condition, choice])


def _in_a_function():
    body = [helper.make_node(_renewed_op(), ["a"], ["b"])]
    function = helper.make_function(
        "own", "F", ["a"], ["b"], body, [helper.make_opsetid("", NEWEST)]
    )
    return _model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[function])


@pytest.mark.parametrize("make", [_in_a_branch, _in_a_function])
def test_ops_that_keep_their_form_are_renumbered_where_the_converter_does_not_look(make):
    proto = make()
    (note,) = lower_opset(proto)
    assert _renewed_op() in note.message
    assert np.isfinite(_outputs(proto)[0]).all()


@pytest.mark.parametrize(
    ("make", "reason"),
    [(_in_a_branch, "a body of control flow uses"), (_in_a_function, "function 'F' uses")],
)
def test_what_the_converter_does_not_reach_is_refused(make, reason, monkeypatch):
    """No op of the installed onnx needs another form; a converter that says so takes its place."""

    def renamed(model, _version):
        model.graph.node[0].op_type = "Relu"
        return model

    monkeypatch.setattr("onnx.version_converter.convert_version", renamed)
    with pytest.raises(CompileError, match=reason) as caught:
        lower_opset(make())
    assert caught.value.diagnostics[0].code == "MCM-I005"


def test_an_op_without_an_older_form_is_refused():
    if not onnx.defs.has("SwiGLU") or newest_opset() >= 28:
        pytest.skip("no op of newer opsets alone is known here")
    proto = _model([helper.make_node("SwiGLU", ["x"], ["y"], "gate")])
    with pytest.raises(CompileError, match="has no SwiGLU") as caught:
        lower_opset(proto)
    assert caught.value.diagnostics[0].code == "MCM-I005"
    assert caught.value.diagnostics[0].at == "op 'gate' (SwiGLU)"


def test_what_the_converter_says_is_told(monkeypatch):
    def fail(*_):
        raise RuntimeError("adapt: Assertion `false` failed: No Adapter for this")

    monkeypatch.setattr("onnx.version_converter.convert_version", fail)
    with pytest.raises(CompileError, match="says: No Adapter for this"):
        lower_opset(_model(_with_renewed()))


def test_models_in_memory_are_renumbered_but_not_rewritten(monkeypatch):
    model, notes = import_model(ir.from_proto(_model(_with_renewed())), "mine")
    assert model.graph.opset_imports[""] == newest_opset()
    assert [note.code for note in notes] == ["MCM-I048"]

    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr("onnx.version_converter.convert_version", fail)
    with pytest.raises(CompileError, match="a model in memory uses"):
        import_model(ir.from_proto(_model(_with_renewed())), "mine")
