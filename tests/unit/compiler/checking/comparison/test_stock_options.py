"""Chips and the user's own file under onnxruntime's own session options."""

from __future__ import annotations

import os
import signal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mcm_compiler.api import compile_model
from mcm_compiler.artifact import chain
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.comparison import stock_options
from mcm_compiler.diagnostics import CompileError, Diagnostic

KIND = TensorProto

# What the tests change holds in forked children alone.
pytestmark = pytest.mark.forks


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stock")
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[4,6] x) => (float[4,6] y) '
    onnx.save(onnx.parser.parse_model(text + "{ r = Relu (x) y = Neg (r) }"), folder / "m.onnx")
    compile_model(folder / "m.onnx", "mcm4", output=folder / "out")
    return folder


def run_by(monkeypatch, module, change):
    """Changes what a module gets from runs under stock session options."""
    plain = module.run_batches

    def run(model, batches, outputs=None, *, stock=False):
        found = plain(model, batches, outputs, stock=stock)
        return change(model, found) if stock else found

    monkeypatch.setattr(module, "run_batches", run)


def test_the_users_own_file_is_run(compiled, monkeypatch):
    run_by(monkeypatch, stock_options, refuse_own)
    with_own = check_folder(compiled / "out", model=compiled / "m.onnx")
    assert "does not run the file itself (MCM-V001)" in with_own.steps[-2].detail
    without = check_folder(compiled / "out")
    assert without.holds
    assert "stock session options" not in without.steps[-2].detail
    assert without.verification.stock == ()


def test_chips_and_file_are_compared(compiled):
    report = check_folder(compiled / "out", model=compiled / "m.onnx")
    assert "bit-identical under stock session options" in report.steps[-2].detail


def refuse_own(model, found):
    return refuse(model, found) if model.name == "m.onnx" else found


def refuse(model, found):
    raise CompileError(Diagnostic("MCM-V001", "onnxruntime refuses the model", at=model.name))


def narrowed(model, found):
    return [{name: array[:2] for name, array in one.items()} for one in found]


def segfault(model, found):
    os.kill(os.getpid(), signal.SIGSEGV)


def out_of_memory(model, found):
    np.zeros(1 << 50, np.uint8)


def killed(model, found):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("change", [refuse, narrowed, segfault])
def test_mcm_v025_chips_that_do_not_run_where_the_model_does(compiled, monkeypatch, change):
    run_by(monkeypatch, chain, change)
    report = check_folder(compiled / "out", model=compiled / "m.onnx")
    assert not report.holds
    assert [d.code for d in report.diagnostics] == ["MCM-V025"]


def test_a_model_that_does_not_run_under_them_is_no_fault_of_the_chips(compiled, monkeypatch):
    run_by(monkeypatch, stock_options, refuse)
    report = check_folder(compiled / "out", model=compiled / "m.onnx")
    assert report.holds
    assert "not compared under stock session options: onnxruntime" in report.steps[-2].detail
    assert not report.diagnostics
    assert not report.unproven


@pytest.mark.parametrize(
    ("module", "change", "how"),
    [
        (stock_options, segfault, "crashes (SIGSEGV) on the file itself"),
        (
            stock_options,
            out_of_memory,
            "(exit status 1), as where memory runs out, on the file itself",
        ),
        (chain, killed, "(SIGKILL), as where memory runs out, on the chips"),
    ],
)
def test_mcm_v026_no_end_of_onnxruntime_ends_the_check(compiled, monkeypatch, module, change, how):
    run_by(monkeypatch, module, change)
    report = check_folder(compiled / "out", model=compiled / "m.onnx")
    assert report.holds
    assert [d.code for d in report.diagnostics] == ["MCM-V026"]
    assert how in report.diagnostics[0].message
    assert how in report.unproven[0].message
    assert report.steps[-1].name == "figures"


NORMALISED = """<ir_version: 8, opset_import: ["" : 17]>
m (float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2,3,4] y) {
    r = Relu (x)
    y, OUTPUTS = BatchNormalization <training_mode = 1> (r, s, b, m, v)
}"""


@pytest.mark.parametrize("outputs", ['"", ""', '"", variance', 'mean, ""'])
def test_a_file_that_crashes_onnxruntime(tmp_path, outputs):
    """onnxruntime 1.31 writes to running statistics that a training step leaves out."""
    onnx.save(onnx.parser.parse_model(NORMALISED.replace("OUTPUTS", outputs)), tmp_path / "m.onnx")
    compile_model(tmp_path / "m.onnx", "mcm4", output=tmp_path / "out")
    assert not check_folder(tmp_path / "out").diagnostics
    report = check_folder(tmp_path / "out", model=tmp_path / "m.onnx")
    assert report.holds
    assert [d.code for d in report.diagnostics] == ["MCM-V026"]


@pytest.mark.parametrize(
    ("op", "kind", "inputs"),
    [("MatMul", KIND.BFLOAT16, 2), ("Relu", KIND.INT16, 1), ("Max", KIND.UINT16, 2)],
)
def test_a_missing_kernel_is_no_failed_proof(tmp_path, op, kind, inputs):
    names = ["a", "b"][:inputs]
    ends = [helper.make_tensor_value_info(name, kind, [4, 4]) for name in [*names, "y"]]
    graph = helper.make_graph([helper.make_node(op, names, ["y"])], "g", ends[:-1], ends[-1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    result = compile_model(tmp_path / "m.onnx", "mcm4", output=tmp_path / "out")
    assert [d.code for d in result.diagnostics] == ["MCM-V021"]
    report = check_folder(tmp_path / "out", model=tmp_path / "m.onnx")
    assert report.holds
    assert report.unproven
    assert [step.name for step in report.steps if step.skipped] == ["equality"]
    assert f"no kernel of {op}" in report.steps[-2].detail


def test_a_misspelt_op_is_still_refused(tmp_path):
    ends = [helper.make_tensor_value_info(name, KIND.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Reluu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(CompileError) as caught:
        compile_model(tmp_path / "m.onnx", "mcm4", output=tmp_path / "out")
    assert caught.value.diagnostics[0].code != "MCM-V021"
