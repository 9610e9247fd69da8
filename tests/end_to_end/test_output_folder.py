"""The output folder: complete, deterministic, tamper-evident, whole or absent."""

from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.emit import finish_folder
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.run_folder import read_compiled, run_folder
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.options import CompileOptions

MODEL = "zoo:bert-tiny"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rehash(folder, *names):
    """What an attacker would do who knows about the hashes."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in names:
        manifest["files"][name] = sha256_file(folder / name)
    path.write_text(json.dumps(manifest))


def failed_steps(folder):
    report = check_folder(folder)
    assert not report.holds
    assert report.diagnostics
    return [step.name for step in report.steps if not step.holds]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled") / "out"
    compile_model(MODEL, "mcm4", CompileOptions(replicas=1, round=1), output=folder)
    return folder


@pytest.fixture
def folder(compiled, workspace):
    return shutil.copytree(compiled, workspace / "out")


def test_files(folder):
    manifest = read_manifest(folder)
    chips = [chip.file for chip in manifest.chips]
    expected = {
        "manifest.json", "annotated.onnx", "program.json", "report.json", "report.md",
        "certificate.json", "certificate.safetensors",
        "target.toml", *chips, *(f"{name}.data" for name in chips),
        *(name for chip in manifest.chips for name in chip.shared_data),
    }  # fmt: skip
    assert {path.name for path in folder.iterdir()} - {"annotated.onnx.data"} == expected
    assert len(chips) > 1


def test_another_process_gives_the_same_bytes(folder, workspace):
    command = [sys.executable, "-m", "mcm_compiler", "compile", MODEL]
    again = workspace / "again"
    target = ("--target", "mcm4", "--replicas", "1", "--round", "1")
    subprocess.run([*command, *target, "-o", str(again)], check=True)
    # A difference of whole files would be spelt out for minutes.
    here, there = contents(folder), contents(again)
    assert sorted(here) == sorted(there)
    assert [name for name in here if here[name] != there[name]] == []


def test_annotated_model_is_the_source_with_standard_fields(folder):
    path = folder / "annotated.onnx"
    proto = onnx.load(path, load_external_data=False)
    onnx.checker.check_model(str(path))
    assert proto.ir_version >= 11
    (configuration,) = proto.configuration
    assert configuration.num_devices == 4
    staged = [node for node in proto.graph.node if node.device_configurations]
    assert len(staged) > 50
    for node in staged:
        chip = {p.key: p.value for p in node.metadata_props}["mcm.chip"]
        assert node.device_configurations[0].pipeline_stage == int(chip.split(",")[0])


def test_run_gives_what_the_source_gives(folder):
    import onnx_ir as ir

    feeds = random_inputs(ir.load(folder / "annotated.onnx"), seed=3)
    expected = run_model(folder / "annotated.onnx", feeds)
    actual = run_folder(folder, feeds)
    assert expected.keys() == actual.keys()
    assert all(same_bits(expected[name], actual[name]) for name in expected)
    short = {name: array[:, :5] for name, array in feeds.items()}
    with pytest.raises(CompileError) as caught:
        run_folder(folder, {**short, "ghost": np.zeros(1)})
    assert {d.code for d in caught.value.diagnostics} == {"MCM-V010"}
    assert len(caught.value.diagnostics) == len(feeds) + 1


def test_simulate_agrees_with_the_report(folder):
    report = json.loads((folder / "report.json").read_text())
    compiled = read_compiled(folder)
    result = compiled.target.simulator().run(compiled.program, report["inferences"])
    assert result.period_s == report["period_s"]


def test_tampered_weights_inside_a_chip_fail(folder):
    data = folder / "chip_01.onnx.data"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 0x40
    data.write_bytes(content)
    assert failed_steps(folder) == ["files"]


def test_tampered_weights_fail_even_with_a_new_hash(folder):
    path = folder / "chip_01.onnx"
    proto = onnx.load(path, load_external_data=False)
    weight = next(
        t
        for t in proto.graph.initializer
        if t.data_type == onnx.TensorProto.FLOAT and list(t.dims) == [128]
    )
    changed = numpy_helper.from_array(np.full(128, 0.5, np.float32), weight.name)
    weight.CopyFrom(changed)
    path.write_bytes(proto.SerializeToString())
    rehash(folder, path.name)
    assert "equality" in failed_steps(folder)


def test_tampered_wire_in_the_manifest_fails(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    wires = [w for w in manifest["wires"] if w["source"] >= 0 and w["destinations"] != [-1]]
    wires[0]["tensor"] += "_x"
    path.write_text(json.dumps(manifest))
    assert failed_steps(folder) == ["structure"]


def test_tampered_wire_inside_a_chip_fails_even_with_a_new_hash(folder):
    path = folder / "chip_01.onnx"
    proto = onnx.load(path, load_external_data=False)
    div = next(n for n in proto.graph.node if n.op_type == "Div" and n.input[0] != n.input[1])
    div.input[0], div.input[1] = div.input[1], div.input[0]
    path.write_bytes(proto.SerializeToString())
    rehash(folder, path.name)
    assert "equality" in failed_steps(folder)


def test_tampered_program_fails_even_with_a_new_hash(folder):
    path = folder / "program.json"
    program = json.loads(path.read_text())
    slowest = max(program["chips"][0]["kernels"], key=lambda kernel: kernel["duration_s"])
    slowest["duration_s"] /= 2
    path.write_text(json.dumps(program))
    rehash(folder, path.name)
    assert "memory" in failed_steps(folder)


def test_overlapping_buffers_fail(folder):
    path = folder / "program.json"
    program = json.loads(path.read_text())
    first, second = program["chips"][0]["buffers"][:2]
    second["address"] = first["address"]
    path.write_text(json.dumps(program))
    rehash(folder, path.name)
    report = check_folder(folder)
    assert "MCM-V040" in [d.code for d in report.diagnostics]


@pytest.mark.parametrize("name", ["chip_00.onnx", "annotated.onnx", "target.toml"])
def test_missing_and_extra_files_fail(folder, name):
    shutil.move(folder / name, folder / "elsewhere")
    codes = [d.code for d in check_folder(folder).diagnostics]
    assert codes == ["MCM-A006", "MCM-A007"]


@pytest.mark.parametrize(
    "damage",
    [b"", b"[]", b"{}", b'{"schema_version": 99}', b'{"schema_version": 1}', b"[" * 100_000],
)
def test_damaged_manifest(folder, damage):
    (folder / "manifest.json").write_bytes(damage)
    with pytest.raises(CompileError) as caught:
        check_folder(folder)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-A005"]


@pytest.mark.parametrize(
    ("field", "damage"), [("files", 7), ("seed", float("inf")), ("chips", [3]), ("wires", None)]
)
def test_manifest_with_a_field_of_another_kind(folder, field, damage):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[field] = damage
    path.write_text(json.dumps(manifest))
    with pytest.raises(CompileError) as caught:
        check_folder(folder)
    assert caught.value.diagnostics[0].code == "MCM-A005"


def test_manifest_may_not_name_files_outside(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["../secret"] = "0"
    path.write_text(json.dumps(manifest))
    with pytest.raises(CompileError) as caught:
        check_folder(folder)
    assert caught.value.diagnostics[0].code == "MCM-A005"


def test_not_an_output_folder(workspace):
    with pytest.raises(CompileError) as caught:
        check_folder(workspace)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-A004"]
    with pytest.raises(CompileError) as caught:
        read_compiled(workspace)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-A004"]


def test_existing_folder_is_refused_and_forced(folder, compile_to):
    before = contents(folder)
    with pytest.raises(CompileError) as caught:
        compile_to(MODEL, "mcm4", round=1)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-A001"]
    assert contents(folder) == before
    # The same input and seed give the same bytes.
    compile_to(MODEL, "mcm4", round=1, force=True)
    assert contents(folder) == before


def test_force_replaces_nothing_that_is_not_ours(compile_to, workspace):
    (workspace / "out").mkdir()
    (workspace / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(CompileError) as caught:
        compile_to(MODEL, "mcm4", force=True)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-A003"]
    assert (workspace / "out" / "thesis.txt").read_text() == "years of work"


def test_full_disk_leaves_nothing(compile_to, workspace, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mcm_compiler.api.finish_folder", full)
    assert finish_folder is not full
    with pytest.raises(CompileError) as caught:
        compile_to(MODEL, "mcm4")
    assert [d.code for d in caught.value.diagnostics] == ["MCM-A002"]
    assert "No space left" in caught.value.diagnostics[0].message
    assert list(workspace.iterdir()) == []


def test_kill_leaves_no_output_folder(workspace, wait_for_chips):
    out = workspace / "out"
    command = [sys.executable, "-m", "mcm_compiler", "compile", "zoo:bert-base", "-O0"]
    process = subprocess.Popen([*command, "-o", str(out)], stderr=subprocess.DEVNULL)
    wait_for_chips(workspace)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
