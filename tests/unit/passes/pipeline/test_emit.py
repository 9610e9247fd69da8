"""What is emitted takes and gives what the model does."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.pipeline.passes import Pass, PassContext
from mcm_compiler.registry import PASSES

TEXT = """<ir_version: 8, opset_import: ["" : 18]>
m (float[2,3] x) => (float[2,3] y, float[2,3] z, float[2,3] loss)
    { y = Relu (x) z = Neg (x) loss = Add (y, z) }"""


@dataclass(frozen=True)
class DropOutputs(Pass):
    name: ClassVar[str] = "test_drop_outputs"
    summary: ClassVar[str] = "leaves one output"

    def run(self, model: ir.Model, context: PassContext) -> bool:
        del model.graph.outputs[1:]
        return True


@pytest.fixture
def drop_outputs() -> Generator[str]:
    PASSES.add(DropOutputs.name, DropOutputs, __file__)
    yield DropOutputs.name
    PASSES.remove(DropOutputs.name)


def _faults(text: str, passes: str, folder: Path) -> list[Diagnostic]:
    model = ir.from_proto(onnx.parser.parse_model(text))
    with pytest.raises(CompileError) as refused:
        compile_model(model, "mcm4", CompileOptions(passes=passes), output=folder / "out")
    assert not (folder / "out").exists()
    return [fault for fault in refused.value.diagnostics if fault.severity is Severity.ERROR]


def test_a_pass_that_takes_outputs_away_is_told(drop_outputs: str, tmp_path: Path) -> None:
    (fault,) = _faults(TEXT, f"{drop_outputs},{DEFAULT_PIPELINE}", tmp_path)
    assert fault.code == "MCM-X013"
    assert fault.message == "after the passes the model no longer makes 'z' and 1 other"
    assert "mcmc opt" in (fault.hint or "")


def test_a_training_step_is_another_model(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> m (float[2,3] x) => (float loss)
        <float[3,1] w = {1, 2, 3}> { y = MatMul (x, w) loss = ReduceSum <keepdims = 0> (y) }"""
    passes = DEFAULT_PIPELINE.replace("simplify,", "simplify,differentiate,")
    (fault,) = _faults(text, passes, tmp_path)
    assert fault.code == "MCM-X013"
    assert fault.message == "after the passes the model takes 'w', which the file does not take"
