"""Chips that were given nothing but ops of which nothing comes: compiled, run and checked."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions

DEAD = """<ir_version: 10, opset_import: ["" : 20]>
half_dead (float[16,16] x) => (float[16,16] y) { a = MatMul(x, x) b = Exp(a) y = Relu(x) }"""


@pytest.mark.parametrize("target", ["mcm4", "mcm36-fabric"])
def test_a_chip_of_dead_ops(tmp_path: Path, target: str) -> None:
    proto = onnx.parser.parse_model(DEAD)
    for node in proto.graph.node:
        node.name = node.op_type
    onnx.save(proto, tmp_path / "dead.onnx")
    options = CompileOptions(
        level=0,
        passes=DEFAULT_PIPELINE.removeprefix("simplify,"),
        pins=(("MatMul", 0), ("Exp", 0), ("Relu", 1)),
    )
    result = compile_model(tmp_path / "dead.onnx", target, options, output=tmp_path / "out")
    assert result.chips is not None
    assert [chip.outputs for chip in result.chips] == [(), ("y",)]
    assert result.simulation is not None
    assert result.partition is not None
    assert result.simulation.period_s >= result.partition.bound.seconds
    assert check_folder(tmp_path / "out").holds
