"""A model of a newer opset than onnxruntime loads: compiled, and proven against its own file."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler import CompileOptions, compile_model
from mcm_compiler.cli.main import cli
from mcm_compiler.ir.reading.versions import newest_opset

NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.skipif(newest_opset() >= NEWEST, reason="onnxruntime loads all opsets of onnx")
def test_a_newer_opset_is_compiled_and_checked_against_its_file(tmp_path):
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(
        np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), "w"
    )
    # Celu is one of the ops that opset 28 has renewed.
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"),
        helper.make_node("Celu", ["m"], ["y"], "celu"),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [2, 64])], [value("y", TensorProto.FLOAT, None)],
        [weight],
    )  # fmt: skip
    imports = [helper.make_opsetid("", NEWEST)]
    path = tmp_path / "newer.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)

    out = tmp_path / "out"
    result = compile_model(path, target="mcm4", options=CompileOptions(level=0), output=out)
    assert result.verification is not None
    assert result.verification.holds
    report = json.loads((out / "report.json").read_text())
    (note,) = [found for found in report["diagnostics"] if found["code"] == "MCM-I048"]
    assert f"opset {NEWEST} was converted to {newest_opset()}" in note["message"]
    assert "MCM-I048" in (out / "report.md").read_text()
    emitted = onnx.load(out / "chip_00.onnx")
    assert {entry.domain: entry.version for entry in emitted.opset_import}[""] == newest_opset()

    checked = CliRunner().invoke(cli, ["check", str(out), "--model", str(path)])
    assert checked.exit_code == 0, checked.output
    assert "FAIL" not in checked.output
    assert "onnxruntime does not run the file itself (MCM-V001)" in checked.output
    other = onnx.load(path)
    other.graph.node[1].attribute.append(helper.make_attribute("alpha", 0.5))
    onnx.save(other, tmp_path / "other.onnx")
    checked = CliRunner().invoke(cli, ["check", str(out), "--model", str(tmp_path / "other.onnx")])
    assert checked.exit_code == 1
