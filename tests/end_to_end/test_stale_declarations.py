"""Models that say something untrue and run in onnxruntime all the same, and some that do not."""

from __future__ import annotations

import pytest
from onnx import helper, parser

from mcm_compiler import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.diagnostics import CompileError

HEADER = '<ir_version: 8, opset_import: ["" : 17]> '
CHAIN = "{ a = Relu (x) b = Neg (a) y = Selu (b) }"


def compiled(model, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    result = compile_model(path, "mcm4", output=tmp_path / "out")
    report = check_folder(tmp_path / "out")
    assert report.holds, report.diagnostics
    assert report.complete
    return {d.code for d in result.diagnostics}, result


@pytest.mark.parametrize(
    "head",
    [
        "g (float[2,4] x) => (float[2,4] y) <float[2,5] b>",
        "g (float[2,4] x) => (float[2,4] y) <float[8] b>",
        "g (float[2,4] x) => (float[3,4] y)",
        "g (float[2,4] x) => (float[2,4,1] y) <float[2,4,1] a, float[2,4,1] b>",
    ],
)
def test_shapes_that_onnxruntime_passes_over(head, tmp_path):
    codes, result = compiled(parser.parse_model(f"{HEADER}{head} {CHAIN}"), tmp_path)
    assert "MCM-I044" in codes
    sizes = {t.name: t for c in result.chips for t in c.model.graph.outputs}
    assert all(value.shape == (2, 4) for value in sizes.values())


def test_an_import_that_onnxruntime_does_without(tmp_path):
    model = parser.parse_model(f"{HEADER}g (float[2,4] x) => (float[2,4] y) {CHAIN}")
    gelu = helper.make_node("Gelu", ["b"], ["y"], domain="com.microsoft")
    model.graph.node[2].CopyFrom(gelu)
    codes, result = compiled(model, tmp_path)
    assert "MCM-I045" in codes
    assert all(c.model.opset_imports["com.microsoft"] == 1 for c in result.chips)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,4] x, float[3] w) => (float[2,4] y) { y = Add (x, w) }",
        "g (float[2,4] x, float[3,3] w) => (float[2,3] y) { y = MatMul (x, w) }",
    ],
)
def test_shapes_that_contradict_each_other_are_one_fault(text, tmp_path):
    with pytest.raises(CompileError) as caught:
        compiled(parser.parse_model(f"{HEADER}{text}"), tmp_path)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-I058"
    assert "ShapeInferenceError" in fault.message
    assert fault.at
    assert fault.hint
    assert not (tmp_path / "out").exists()
