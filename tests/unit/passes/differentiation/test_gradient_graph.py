"""Gradients as outputs of a model: branches that are surely taken, and shapes that stay open."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model
from mcm_compiler.ir.reading.importer import import_model
from tests.generators.appended_gradients import append_gradients

SPREAD = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,3] w INPUT) => (float loss) <int64[1] all = {-1} WEIGHT> {
    [choice] y = If (c) <then_branch = yes () => (float[6] p) { p = Reshape (w, all) },
        else_branch = no () => (float[2,3] q) { q = Exp (w) }>
    s = Mul (y, y) loss = ReduceSum <keepdims = 0> (s) }"""


def _imported(given: str = "", weight: str = "") -> ir.Model:
    text = SPREAD.replace("INPUT", given).replace("WEIGHT", weight)
    return import_model(ir.from_proto(onnx.parser.parse_model(text)), "m")[0]


@pytest.mark.parametrize("taken", [0, 1])
def test_a_branch_that_is_surely_taken_has_a_gradient(taken: int) -> None:
    """The op has none, and where its branches differ in shape not even a shape."""
    model = _imported(weight=f", bool c = {{{taken}}}")
    append_gradients(model, "loss", ["w"])
    w = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    found = run_model(ir.to_proto(model), {"w": w})["grad/w"]
    np.testing.assert_allclose(found, 2 * w if taken else 2 * np.exp(2 * w), rtol=1e-5)


def test_an_op_that_decides_a_shape_as_it_runs_is_named() -> None:
    model = _imported(given=", bool c")
    with pytest.raises(CompileError) as caught:
        append_gradients(model, "loss", ["w"])
    fault = caught.value.diagnostics[0]
    assert fault.code == "MCM-D034"
    assert "since node 'choice' ('If') makes shapes that depend on data" in fault.message
    assert "--dim" not in (fault.hint or "")
