"""What a model says about itself is kept in the models of chips and of segments."""

from __future__ import annotations

import onnx
import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.options import CompileOptions
from mcm_compiler.placed.placing import place_model

TEXT = """<ir_version: 10, opset_import: ["" : 17], producer_name: "maker", doc_string: "a model">
m (float[8,8] x) => (float[8,8] y) { r = MatMul (x, x) y = Softmax (r) }"""


@pytest.fixture
def path(tmp_path):
    model = onnx.parser.parse_model(TEXT)
    model.metadata_props.add(key="names", value="{0: 'cat'}")
    model.metadata_props.add(key="mcm.replicas", value="7")
    graph = model.graph
    graph.doc_string = "a graph"
    graph.metadata_props.add(key="stage", value="export")
    for value in (graph.input[0], graph.output[0], graph.value_info.add(name="r")):
        value.doc_string = f"value {value.name}"
        value.metadata_props.add(key="unit", value=value.name)
    graph.value_info[0].type.CopyFrom(graph.input[0].type)
    graph.node[0].doc_string = "an op"
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def kept(parts):
    """Checks what parts have in common; gives the texts of their values and ops."""
    values, ops = {}, {}
    for part in parts:
        assert part.doc_string == "a model"
        assert part.graph.doc_string == "a graph"
        assert {e.key: e.value for e in part.metadata_props} == {"names": "{0: 'cat'}"}
        assert {e.key: e.value for e in part.graph.metadata_props} == {"stage": "export"}
        for value in (*part.graph.input, *part.graph.output):
            if value.name in "xry":
                said = {e.key: e.value for e in value.metadata_props}
                values.setdefault(value.name, []).append((value.doc_string, said))
        ops |= {node.op_type: node.doc_string for node in part.graph.node}
    assert ops["MatMul"] == "an op"
    return values


def expected(*names):
    return {name: [(f"value {name}", {"unit": name})] * count for name, count in names}


def test_chips_keep_texts_and_properties(path, tmp_path):
    options = CompileOptions(replicas=1, pins=(("MatMul", 0), ("Softmax", 1)))
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = node.op_type
    onnx.save(model, path)
    compile_model(path, "mcm4", options, output=tmp_path / "out")
    parts = [onnx.load(tmp_path / "out" / f"chip_0{chip}.onnx") for chip in (0, 1)]
    assert kept(parts) == expected(("x", 1), ("r", 2), ("y", 1))
    assert check_folder(tmp_path / "out", model=path).holds


def test_segments_keep_them_too(path, tmp_path):
    placed = place_model(path, "box-cpu-gpu", output=tmp_path / "out")
    assert placed.segments is not None
    files = sorted((tmp_path / "out").glob("segment*.onnx"))
    assert kept(map(onnx.load, files)).keys() >= {"x", "y"}


def test_folders_of_both_kinds_are_checked_against_one_model(path, tmp_path):
    """One model that is not theirs fails both."""
    compile_model(path, "mcm4", CompileOptions(level=0), output=tmp_path / "all" / "chips")
    place_model(path, "box-cpu-gpu", output=tmp_path / "all" / "placed")
    other = onnx.load(path)
    other.graph.node[1].op_type = "LogSoftmax"
    onnx.save(other, tmp_path / "other.onnx")
    ask = ["check", str(tmp_path / "all"), "--model"]
    found = CliRunner().invoke(cli, [*ask, str(path)])
    assert found.exit_code == 0, found.output
    assert "2 folders: 2 ok, 0 failed" in found.output
    found = CliRunner().invoke(cli, [*ask, str(tmp_path / "other.onnx")])
    assert found.exit_code == 1
    assert "2 folders: 0 ok, 2 failed" in found.output
