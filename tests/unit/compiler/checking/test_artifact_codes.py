"""Each way in which an output folder can be wrong has its diagnostic."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.chain import run_chain
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import folder_target, read_manifest
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.constraint_check import check_constraints
from mcm_compiler.checking.entry.structure_check import load_chips
from mcm_compiler.contracts.target import HOST, Wire
from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions


def chain_of_products():
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,128] x) => (float[64,128] y) {'
        " a = MatMul (x, u) b = Relu (a) c = MatMul (b, v) y = Relu (c) }"
    )
    for name in "uv":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return ir.from_proto(model)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact") / "out"
    result = compile_model(
        chain_of_products(),
        "mcm4",
        CompileOptions(chips=2, replicas=1, inferences=8),
        output=folder,
    )
    assert result.chips is not None
    assert len(result.chips) == 2
    return folder


@pytest.fixture
def folder(compiled, tmp_path):
    return shutil.copytree(compiled, tmp_path / "copy")


def change(folder, name, edit):
    """Edits a JSON file of the folder, and its hash in the manifest as an attacker would."""
    path = folder / name
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    if name != "manifest.json":
        digest = sha256_file(path)
        change(folder, "manifest.json", lambda manifest: manifest["files"].update({name: digest}))


def codes(folder):
    report = check_folder(folder, seeds=(0,))
    assert not report.holds
    return {d.code for d in report.diagnostics}


def test_an_untouched_folder_holds(folder):
    assert check_folder(folder, seeds=(0,)).holds


def test_mcm_a010_another_order_of_ops(folder):
    change(folder, "manifest.json", lambda m: m["chips"][0]["order"].reverse())
    assert codes(folder) == {"MCM-A010"}


def test_mcm_a011_a_wire_that_nobody_sends(folder):
    change(folder, "manifest.json", lambda m: m["wires"][0].update(tensor="ghost"))
    assert codes(folder) == {"MCM-A011"}


def test_mcm_v030_another_period_in_the_report(folder):
    change(folder, "report.json", lambda report: report.update(period_s=report["period_s"] / 2))
    assert codes(folder) == {"MCM-V030"}


def test_mcm_v041_a_buffer_outside_sram(folder):
    def move(program):
        program["chips"][0]["buffers"][-1]["address"] = 1 << 40

    change(folder, "program.json", move)
    assert "MCM-V041" in codes(folder)


def test_mcm_v042_a_program_that_lowering_does_not_give(folder):
    def rename(program):
        program["chips"][0]["kernels"][0]["name"] = "other"

    change(folder, "program.json", rename)
    assert codes(folder) == {"MCM-V042"}


def test_mcm_v020_another_weight(folder):
    data = folder / "chip_01.onnx.data"
    data.write_bytes(b"\0" * data.stat().st_size)
    digest = sha256_file(data)
    change(folder, "manifest.json", lambda m: m["files"].update({data.name: digest}))
    change(folder, "manifest.json", lambda m: None)
    source = folder / "annotated.onnx"
    proto = onnx.load(source, load_external_data=False)
    for tensor in proto.graph.initializer:
        raw = np.ones((128, 128), np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(raw, tensor.name))
    source.write_bytes(proto.SerializeToString())
    digest = sha256_file(source)
    change(folder, "manifest.json", lambda m: m["files"].update({source.name: digest}))
    assert "MCM-V020" in codes(folder)


def test_mcm_v050_a_wire_against_the_ring(folder):
    manifest = read_manifest(folder)
    chips = load_chips(folder, manifest)
    assert "acyclic" in check_constraints(manifest, chips, folder_target(folder))
    turned = replace(manifest, wires=(*manifest.wires, Wire("y", 1, (0,))))
    with pytest.raises(CompileError) as raised:
        check_constraints(turned, chips, folder_target(folder))
    (fault,) = raised.value.diagnostics
    assert (fault.code, fault.at) == ("MCM-V050", "chips 1, 0")
    maker = manifest.chips[1].order[-1]
    assert f"f('{maker}') = 1 > f('y') = 0" in fault.message


@pytest.mark.parametrize("lost", ["output", "sender"])
def test_mcm_v003_a_tensor_that_does_not_arrive(folder, lost):
    manifest = read_manifest(folder)
    if lost == "output":
        wires = [wire for wire in manifest.wires if wire.destinations != (HOST,)]
    else:
        wires = [*manifest.wires, Wire("ghost", 0, (1,))]
    feeds = {"x": np.zeros((64, 128), np.float32)}
    with pytest.raises(CompileError) as raised:
        run_chain(folder, [0, 1], wires, ["y"], [feeds])
    assert [d.code for d in raised.value.diagnostics] == ["MCM-V003"]


def test_mcm_v021_placeholders_are_not_compared(tmp_path):
    model = chain_of_products()
    model.metadata_props[WEIGHTS_KEY] = SHAPE_ONLY
    result = compile_model(
        model, "mcm4", CompileOptions(chips=2, replicas=1, inferences=8), output=tmp_path / "out"
    )
    assert [d.code for d in result.diagnostics] == ["MCM-V021"]


def test_mcm_u006_a_pipeline_without_output(tmp_path):
    options = CompileOptions(passes="simplify,fuse")
    with pytest.raises(CompileError) as raised:
        compile_model(chain_of_products(), "mcm4", options, output=tmp_path / "out")
    assert [d.code for d in raised.value.diagnostics] == ["MCM-U006"]
    assert not (tmp_path / "out").exists()
