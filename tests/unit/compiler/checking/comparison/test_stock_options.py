"""Chips and the user's own file under onnxruntime's own session options."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mcm_compiler.api import compile_model
from mcm_compiler.artifact import chain
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.comparison import stock_options
from mcm_compiler.diagnostics import CompileError, Diagnostic

KIND = TensorProto


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
    ran: list[Path] = []
    run_by(monkeypatch, stock_options, lambda model, found: (ran.append(model), found)[1])
    assert check_folder(compiled / "out", model=compiled / "m.onnx").holds
    report = check_folder(compiled / "out")
    assert report.holds
    assert ran == [compiled / "m.onnx", compiled / "out" / "annotated.onnx"]
    assert "under stock session options" in report.steps[-2].detail


def refuse(model, found):
    raise CompileError(Diagnostic("MCM-V001", "onnxruntime refuses the model", at=model.name))


def narrowed(model, found):
    return [{name: array[:2] for name, array in one.items()} for one in found]


@pytest.mark.parametrize("change", [refuse, narrowed])
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
