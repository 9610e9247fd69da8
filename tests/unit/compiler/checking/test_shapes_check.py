"""Declared types and shapes of a folder's models, held against what their ops make."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.checking.shapes_check import check_shapes
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading import importer
from mcm_compiler.options import CompileOptions
from tools.figure_mutations import rehash


def model() -> ir.Model:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,128] x, bool c, int64[1] k)'
        " => (float[64,128] y, int64[2,n] z) { a = MatMul (x, u) b = Tanh (a)"
        " d = If (c) <then_branch = t () => (float[64,128] e) { e = Neg (b) },"
        " else_branch = s () => (float[64,128] f) { g = Exp (b) f = Neg (g) }>"
        " h = MatMul (d, v) y = Relu (h) z = NonZero (h) }"
    )
    for name in "uv":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return ir.from_proto(proto)


def options() -> CompileOptions:
    return CompileOptions(chips=2, replicas=1, inferences=8, level=0)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes") / "out"
    compile_model(model(), "mcm4", options(), output=folder)
    return folder


@pytest.fixture
def opened(compiled: Path, tmp_path: Path) -> OpenedFolder:
    folder = shutil.copytree(compiled, tmp_path / "out")
    return OpenedFolder(folder, read_manifest(folder))


def values(opened: OpenedFolder) -> dict[str, ir.Value]:
    graphs = [graph for chip in opened.chips for graph in chip.model.graphs()]
    found = {v.name or "": v for graph in graphs for node in graph for v in node.outputs}
    return found | {k: v for graph in graphs for k, v in graph.initializers.items()}


def codes(opened: OpenedFolder) -> list[str]:
    try:
        check_shapes(opened.chips, opened.manifest.run_wires, opened.source)
    except CompileError as error:
        return [d.code for d in error.diagnostics]
    return []


def reshape(value: ir.Value) -> None:
    value.shape = ir.Shape([1, 128])


def forget(value: ir.Value) -> None:
    value.shape = None


def open_up(value: ir.Value) -> None:
    value.shape = ir.Shape([ir.SymbolicDim("rows"), 128])


def plan_less(value: ir.Value) -> None:
    value.shape = ir.Shape([ir.SymbolicDim("a/0=2?"), 128])


def add_axis(value: ir.Value) -> None:
    value.shape = ir.Shape([1, 1, 128])


def retype(value: ir.Value) -> None:
    value.type = ir.TensorType(ir.DataType.INT8)


def test_a_folder_declares_what_its_ops_make(opened: OpenedFolder) -> None:
    assert codes(opened) == []


@pytest.mark.parametrize("change", [reshape, forget, open_up, plan_less, add_axis])
@pytest.mark.parametrize("name", ["a", "d", "e", "g"])
def test_another_shape_of_a_result_is_refused(
    opened: OpenedFolder, name: str, change: Callable[[ir.Value], None]
) -> None:
    change(values(opened)[name])
    # In bodies an import may know less of sizes than a check.
    open_in_body = name in "eg" and change in (forget, open_up, plan_less)
    assert codes(opened) == ([] if open_in_body else ["MCM-V052"])


@pytest.mark.parametrize("name", ["a", "g"])
def test_another_type_of_a_result_is_refused(opened: OpenedFolder, name: str) -> None:
    retype(values(opened)[name])
    # Onnx's inference tells of types itself.
    assert set(codes(opened)) in ({"MCM-V052"}, {"MCM-I032"})


@pytest.mark.parametrize("change", [reshape, retype])
def test_another_shape_or_type_of_a_weight_is_refused(
    opened: OpenedFolder, change: Callable[[ir.Value], None]
) -> None:
    change(values(opened)["u"])
    assert codes(opened) == ["MCM-V052"]


@pytest.mark.parametrize("change", [reshape, retype])
def test_another_shape_or_type_of_an_input_is_refused(
    opened: OpenedFolder, change: Callable[[ir.Value], None]
) -> None:
    for chip in opened.chips:
        for value in chip.model.graph.inputs:
            if value.name == "x":
                change(value)
    assert codes(opened) == ["MCM-V052"]


def test_an_opset_of_one_chip_alone_is_refused(opened: OpenedFolder) -> None:
    assert len(opened.chips) > 1
    opened.chips[1].model.graph.opset_imports[""] = 13
    assert codes(opened) == ["MCM-V052"]


def test_a_folder_that_was_made_from_false_shapes_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All files agree with each other, and the throughput is several times too high."""
    infer = importer.infer_shapes

    def less(given: ir.Model, *further: object) -> object:
        notes = infer(given, *further)  # type: ignore[arg-type]
        for node in given.graph:
            if node.outputs[0].name in ("a", "b", "d"):
                reshape(node.outputs[0])
        return notes

    monkeypatch.setattr(importer, "infer_shapes", less)
    folder = tmp_path / "out"
    one_chip = CompileOptions(chips=1, replicas=1, inferences=8, level=0)
    compile_model(model(), "mcm4", one_chip, output=folder)
    rehash(folder)
    monkeypatch.undo()
    found = check_folder(folder)
    assert [step.name for step in found.steps if not step.holds] == ["source", "bound"]
    assert found.diagnostics[0].code == "MCM-V052"
