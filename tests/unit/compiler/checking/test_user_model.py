"""The user's own model, read once more after a compile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from mcm_compiler.api import compile_model
from mcm_compiler.checking.structure_step import read_raw


def _saved(text: str, folder: Path) -> Path:
    onnx.save(onnx.parser.parse_model(text), path := folder / "m.onnx")
    return path


def test_implied_opsets_are_there_when_an_opset_is_converted(tmp_path: Path) -> None:
    newest = onnx.defs.onnx_opset_version()
    path = _saved(
        f'<ir_version: 8, opset_import: ["" : {newest}]> m (float[4] x)'
        " => (float[4, 1] y) { u, i, v, c = Unique <sorted = 1> (x)"
        " y = ai.onnx.ml.LinearRegressor <coefficients = [2.0], targets = 1> (t)"
        " t = Reshape (x, s) }",
        tmp_path,
    )
    proto = onnx.load(path)
    proto.graph.node.sort(key=lambda node: node.op_type == "LinearRegressor")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([4, 1]), "s"))
    onnx.save(proto, path)
    assert [entry.domain for entry in onnx.load(path).opset_import] == [""]
    assert {"", "ai.onnx.ml"} <= read_raw(path).opset_imports.keys()
    assert compile_model(path, "mcm4").verification.holds


def test_declared_types_that_say_nothing_are_dropped_as_in_an_import(tmp_path: Path) -> None:
    path = _saved(
        '<ir_version: 8, opset_import: ["" : 17]> m (int64 n, float[4] x) => (float[4] y) {'
        " c = Constant <value = bool {1}> () e = SequenceEmpty <dtype = 1> ()"
        " q = Loop (n, c, e) <body = b (int64 i, bool g, seq(float[4]) s)"
        " => (bool h, seq(float[4]) r) { h = Identity (g) r = SequenceInsert (s, x) }>"
        " z = Constant <value = int64 {0}> () f = SequenceInsert (q, x) y = SequenceAt (f, z) }",
        tmp_path,
    )
    proto = onnx.load(path)
    body = next(node for node in proto.graph.node if node.op_type == "Loop").attribute[0].g
    body.output[1].type.sequence_type.ClearField("elem_type")
    onnx.save(proto, path)
    assert len(read_raw(path).graph) == len(proto.graph.node)
    assert compile_model(path, "mcm4").verification.holds
