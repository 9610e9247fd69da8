"""The graph before placement, out of the models of the chips."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions


def test_a_constant_op_that_makes_an_output_is_placed_there_alone(tmp_path: Path) -> None:
    """`c` makes an output on chip 1; chip 0, which reads it, has it as one more constant."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[8] x) => (float[8] y, float[8] c)'
        " <float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}> { c = Exp (w) a = Add (x, c) y = Tanh (a) }"
    )
    for node in proto.graph.node:
        node.name = node.output[0]
    options = CompileOptions(
        passes=DEFAULT_PIPELINE.replace("simplify,fuse", "fuse{max_group=1}"),
        pins=(("a", 0), ("y", 1), ("c", 1)),
    )
    result = compile_model(ir.from_proto(proto), "mcm4", options, output=tmp_path / "out")
    assert result.chips is not None
    held = [{node.name for node in chip.model.graph} for chip in result.chips]
    assert held == [{"c", "a"}, {"c", "y"}]
    assert check_folder(tmp_path / "out").holds
