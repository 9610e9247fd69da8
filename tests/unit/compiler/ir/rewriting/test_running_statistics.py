"""Running statistics that onnxruntime writes over: none is read by anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_onnx
from mcm_compiler.options import CompileOptions

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
m (float[2,3,4] x INPUTS) => (float[2,3,4] y OUTPUTS)
    <float[3] scale = {1,1,1}, float[3] bias = {0,0,0}, float[3] mean = {1,2,3},
     float[3] var = {1,1,2}, int64[3] dims = {1,3,1}> {
    BEFORE
    [bn] n, newmean, newvar = BatchNormalization <training_mode = 1> (x, scale, bias, MEAN, var)
    AFTER
    }"""


def _file(
    folder: Path,
    after: str,
    *,
    mean: str = "mean",
    before: str = "",
    inputs: str = "",
    outputs: str = "",
) -> Path:
    text = TEXT.replace("INPUTS", inputs).replace("OUTPUTS", outputs).replace("MEAN", mean)
    model = onnx.parser.parse_model(text.replace("BEFORE", before).replace("AFTER", after))
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def _notes(path: Path) -> list[str]:
    return [note.message for note in import_onnx(path)[1] if note.code == "MCM-I054"]


@pytest.mark.parametrize(
    ("before", "mean", "after"),
    [
        ("", "mean", "[r] column = Reshape (mean, dims) [y] y = Add (n, column)"),
        ("", "mean", "[y] y = BatchNormalization (n, scale, bias, mean, var)"),
        ("", "bias", "[y] y = BatchNormalization (n, scale, bias, mean, var)"),
        (
            "same = Constant <value = float[3] {4,5,6}> ()",
            "same",
            "[y] y = BatchNormalization (n, scale, bias, same, var)",
        ),
        ("flat = Identity (mean)", "flat", "r = Reshape (mean, dims) [y] y = Add (n, r)"),
    ],
)
def test_what_others_read_stays_as_the_file_has_it(
    before: str, mean: str, after: str, tmp_path: Path
) -> None:
    path = _file(tmp_path, after, mean=mean, before=before)
    assert any("the new running mean over" in note for note in _notes(path))
    options = CompileOptions(verify_seeds=3)
    verification = compile_model(path, "mcm4", options).verification
    assert verification is not None
    assert all(output.holds for output in verification.outputs)


def test_layers_that_share_weights_get_their_own(tmp_path: Path) -> None:
    after = "[y] y, m2, v2 = BatchNormalization <training_mode = 1> (n, scale, bias, mean, var)"
    path = _file(tmp_path, after)
    model, _ = import_onnx(path)
    read = [node.inputs[3:5] for node in model.graph if node.op_type == "BatchNormalization"]
    values = [value for pair in read for value in pair if value is not None]
    assert len(set(values)) == 4
    means, variances = values[0::2], values[1::2]
    for kept, expected in ((means, [1, 2, 3]), (variances, [1, 1, 2])):
        for value in kept:
            assert value.const_value is not None
            np.testing.assert_array_equal(value.const_value.numpy(), expected)


@pytest.mark.parametrize(
    ("after", "mean", "before", "inputs", "said"),
    [
        (
            "r = Reshape (newmean, dims) [y] y = Add (n, r)",
            "mean",
            "",
            "",
            "results change from run to run",
        ),
        (
            "r = Reshape (old, dims) [y] y = Add (n, r)",
            "old",
            "",
            ", float[3] old",
            "'y' (Add) reads too: what it reads depends on the order of the run",
        ),
        (
            "[e] e = Exp (old) r = Reshape (e, dims) [y] y = Add (n, r)",
            "old",
            "old = Neg (old0)",
            ", float[3] old0",
            "'e' (Exp) reads too: what it reads depends on the order of the run",
        ),
    ],
)
def test_what_depends_on_order_or_run_is_refused(
    after: str, mean: str, before: str, inputs: str, said: str, tmp_path: Path
) -> None:
    path = _file(tmp_path, after, mean=mean, before=before, inputs=inputs)
    with pytest.raises(CompileError) as refused:
        import_onnx(path)
    (fault,) = refused.value.diagnostics
    assert fault.code == "MCM-I054"
    assert said in fault.message
    assert "'newmean' an output of the graph" in (fault.hint or "")


def test_outputs_of_the_graph_are_written_elsewhere(tmp_path: Path) -> None:
    after = "r = Reshape (newmean, dims) [y] y = Add (n, r)"
    path = _file(tmp_path, after, outputs=", float[3] newmean")
    assert not _notes(path)
    verification = compile_model(path, "mcm4", CompileOptions(verify_seeds=2)).verification
    assert verification is not None
    assert all(output.holds for output in verification.outputs)
