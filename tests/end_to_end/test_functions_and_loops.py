"""Functions that stay one op, and branches within loops: compiled, and equal in onnxruntime."""

from __future__ import annotations

import onnx
import pytest
from onnx import AttributeProto, parser

from mcm_compiler import CompileOptions, compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import open_session

HEADER = '<ir_version: 10, opset_import: ["" : 17, "local" : 1]> '
CALL = "g (float[2,4] x) => (float[2,4] y) { a = Relu (x) b = local.F (a) y = Relu (b) }"
BRANCH = """
    t = Constant <value = bool {{1}}> ()
    {result} = If (t) <
        then_branch = inner_then () => (float[2,4] p) {{ p = Relu ({source}) }},
        else_branch = inner_else () => (float[2,4] q) {{ q = Neg ({source}) }}
    >"""
LOOP = f"""
    g (float[2,4] x) => (float[2,4] y) {{
        n = Constant <value_int = 3> ()
        c = Constant <value = bool {{1}}> ()
        a = Loop (n, c, x) <
            body = body (int64 i, bool k, float[2,4] s) => (bool k2, float[2,4] s2) {{
                k2 = Identity (k)
                {BRANCH.format(result="s2", source="s")}
            }}
        >
        y = Neg (a)
    }}"""
NESTED_IF = f"""
    g (float[2,4] x, bool k) => (float[2,4] y) {{
        a = If (k) <
            then_branch = then () => (float[2,4] r) {{ {BRANCH.format(result="r", source="x")} }},
            else_branch = other () => (float[2,4] o) {{ o = Selu (x) }}
        >
        y = Neg (a)
    }}"""


def function(opset, body, attributes=""):
    return (
        f'\n<domain: "local", opset_import: ["" : {opset}]> F {attributes} (a) => (b) {{ {body} }}'
    )


def proven(model, tmp_path, count=1):
    onnx.save(model, tmp_path / "model.onnx")
    result = compile_model(
        tmp_path / "model.onnx",
        "mcm4",
        CompileOptions(replicas=1, round=count),
        output=tmp_path / "out",
    )
    report = check_folder(tmp_path / "out")
    assert report.holds, report.diagnostics
    assert report.complete
    assert all(o.bit_equal for o in report.verification.outputs)
    return result


@pytest.mark.parametrize("opset", [12, 13, 18])
def test_a_function_of_another_opset_stays_one_op(opset, tmp_path):
    body = "t = Softmax <axis = 0> (a) b = Relu (t)"
    result = proven(parser.parse_model(f"{HEADER}{CALL}{function(opset, body)}"), tmp_path)
    calls = [n for c in result.chips for n in c.model.graph if n.domain == "local"]
    assert [n.op_type for n in calls] == ["F"]
    assert "'local.F'" in next(d.message for d in result.diagnostics if d.code == "MCM-P010")


def test_a_function_of_the_model_s_opset_is_inlined(tmp_path):
    result = proven(parser.parse_model(f"{HEADER}{CALL}{function(17, 'b = Selu (a)')}"), tmp_path)
    assert "F" not in [n.op_type for c in result.chips for n in c.model.graph]


def test_a_function_that_onnxruntime_reads_by_the_model_s_opset_is_refused(tmp_path):
    """ReduceSum had its axes as an attribute before opset 13; onnxruntime takes the model's 17."""
    body = "t = ReduceSum <axes = [1]> (a) b = Add (a, t)"
    model = parser.parse_model(f"{HEADER}{CALL}{function(11, body)}")
    with pytest.raises(CompileError):
        open_session(model)
    with pytest.raises(CompileError) as caught:
        proven(model, tmp_path)
    fault = caught.value.diagnostics[0]
    assert fault.code == "MCM-V001"
    assert "ReduceSum" in fault.message
    assert fault.hint
    assert not (tmp_path / "out").exists()


def test_a_function_that_is_given_a_graph_stays_one_op(tmp_path):
    model = parser.parse_model(f"{HEADER}{CALL}{function(17, 'b = Selu (a)')}")
    model.functions[0].attribute.append("branch")
    branch = parser.parse_graph("branch () => (float[2,4] r) { r = Relu (x) }")
    call = model.graph.node[1]
    call.attribute.add(name="branch", type=AttributeProto.GRAPH).g.CopyFrom(branch)
    result = proven(model, tmp_path)
    assert "F" in [n.op_type for c in result.chips for n in c.model.graph]


@pytest.mark.parametrize("text", [LOOP, NESTED_IF], ids=["loop", "if"])
@pytest.mark.parametrize(("count", "chips"), [(1, 2), (2, 4), (None, 4)])
def test_an_if_with_a_constant_condition_within_a_subgraph(text, count, chips, tmp_path):
    result = proven(parser.parse_model(f"{HEADER}{text}"), tmp_path, count)
    assert len(result.chips) == chips
