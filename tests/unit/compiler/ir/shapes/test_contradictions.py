"""Declared shapes that do not hold are told with what holds, once that is known."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from mcm_compiler.ir.reading.importer import import_onnx

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
m (float[1,1,20] x) => (float[1,1,DECLARED] y) <float[3] s = {1.0, 1.0, 1.3}, float[1,1,DECLARED] r>
    { r = Resize <mode = "linear"> (x, , s) y = Relu (r) }"""


@pytest.mark.parametrize(("declared", "said"), [(26, None), (25, "[1, 1, 26]"), (24, "[1, 1, 26]")])
def test_a_declared_size_that_onnxruntime_computes_is_not_told_to_be_wrong(
    declared: int, said: str | None, tmp_path: Path
) -> None:
    """20 times 1.3, as 32-bit floats, is 26 in onnxruntime and rounded down to 25 by onnx."""
    onnx.save(onnx.parser.parse_model(TEXT.replace("DECLARED", str(declared))), tmp_path / "m.onnx")
    model, notes = import_onnx(tmp_path / "m.onnx")
    assert [node.outputs[0].shape for node in model.graph] == [(1, 1, 26)] * 2
    told = [note.message for note in notes if note.code == "MCM-I044"]
    if said is None:
        assert not told
    for message in told:
        assert f"is declared as [1, 1, {declared}] and is {said}" in message
