"""Every verb that reads a folder opens it at the same gate."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.ci.baseline import read_baseline
from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.markdown import render_markdown
from mcm_compiler.text import json_text
from tools.figure_mutations import rehash


def model() -> ir.Model:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[8,16] x) => (float[8,16] y) {'
        " a = MatMul (x, w) b = Tanh (a) y = MatMul (b, w) }"
    )
    weight = np.random.default_rng(0).standard_normal((16, 16), dtype=np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return ir.from_proto(proto)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate") / "out"
    options = CompileOptions(chips=2, replicas=1, round=1, inferences=8, partitioner="dp")
    compile_model(model(), "mcm4", options, output=folder)
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled, tmp_path / "out")


def invoke(verb: str, folder: Path) -> Any:
    arguments: list[str] = []
    if verb == "run":
        np.savez(folder.parent / "x.npz", x=np.ones((8, 16), np.float32))
        arguments = ["--input", str(folder.parent / "x.npz")]
    if verb == "compile":
        onnx.save(ir.to_proto(model()), folder.parent / "m.onnx")
        source = str(folder.parent / "m.onnx")
        arguments = ["--target", "mcm4", "--partitioner", "dp", "--baseline", str(folder)]
        arguments += ["-o", str(folder.parent / "new")]
        return CliRunner().invoke(cli, [verb, source, *arguments])
    return CliRunner().invoke(cli, [verb, str(folder), *arguments])


VERBS = ("run", "report", "simulate", "check", "compile")


@pytest.mark.parametrize("verb", VERBS)
def test_an_untouched_folder_passes(folder: Path, verb: str) -> None:
    result = invoke(verb, folder)
    assert result.exit_code == 0, result.output
    assert "MCM-A02" not in result.output


def flip(folder: Path) -> None:
    path = folder / "chip_00.onnx.data"
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def link(folder: Path) -> None:
    (folder / "report.json").rename(folder.parent / "elsewhere.json")
    (folder / "report.json").symlink_to(folder.parent / "elsewhere.json")


def pipe(folder: Path) -> None:
    (folder / "program.json").unlink()
    os.mkfifo(folder / "program.json")


def lead_out(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["../m.onnx"] = "0"
    json_text.write(path, manifest)


def linked_manifest(folder: Path) -> None:
    (folder / "manifest.json").rename(folder.parent / "manifest.json")
    (folder / "manifest.json").symlink_to(folder.parent / "manifest.json")


def enlarge(folder: Path) -> None:
    with (folder / "report.md").open("r+b") as file:
        file.truncate(3 << 30)  # sparse: nothing is written, and nothing read


CHANGES: dict[Callable[[Path], None], str] = {
    flip: "MCM-A008",
    link: "MCM-A006",
    pipe: "MCM-A006",
    lead_out: "MCM-A005",
    linked_manifest: "MCM-A005",
    enlarge: "MCM-A008",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("verb", VERBS)
def test_what_was_changed_is_refused(
    folder: Path, verb: str, change: Callable[[Path], None]
) -> None:
    change(folder)
    result = invoke(verb, folder)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    code = "MCM-U030" if verb == "compile" else CHANGES[change]
    assert f"error[{code}]" in result.stderr


def invent(folder: Path) -> None:
    path = folder / "report.json"
    report = json.loads(path.read_text())
    for name in ("period_s", "latency_s"):
        report[name] /= 2
    report["throughput_per_s"] *= 2
    json_text.write(path, report)
    (folder / "report.md").write_text(render_markdown(report))
    rehash(folder)


@pytest.mark.parametrize("verb", ["report", "compile"])
def test_invented_figures_are_not_shown_and_not_compared(folder: Path, verb: str) -> None:
    invent(folder)
    result = invoke(verb, folder)
    assert result.exit_code == 1
    assert ("MCM-U030" if verb == "compile" else "MCM-V073") in result.stderr
    assert "a figure of report.json is not what the folder gives" in result.stderr


def test_a_report_by_itself_says_that_nothing_proves_it(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone" / "report.json"
    alone.parent.mkdir()
    shutil.copyfile(folder / "report.json", alone)
    notes: list[Diagnostic] = []
    assert read_baseline(alone, notes.append) is not None
    assert [note.code for note in notes] == ["MCM-A021"]
    result = invoke("report", alone)
    assert result.exit_code == 0
    assert "note[MCM-A021]" in result.stderr
    beside = invoke("report", folder / "report.json")
    assert beside.exit_code == 0
    assert not beside.stderr


def test_figures_of_other_versions_are_not_derived_again(folder: Path) -> None:
    path = folder / "report.json"
    report = json.loads(path.read_text())
    report["versions"]["mcm-compiler"] = "0.0.1"
    json_text.write(path, report)
    rehash(folder)
    notes: list[Diagnostic] = []
    assert read_baseline(path, notes.append) is not None
    assert [note.code for note in notes] == ["MCM-A023"]
    flip(folder)
    with pytest.raises(CompileError):
        read_baseline(path)


def test_a_report_whose_verdict_lacks_the_kind_of_its_model_is_read_with_a_note(
    folder: Path,
) -> None:
    path = folder / "report.json"
    report = json.loads(path.read_text())
    del report["verdict"]["optimality"]["model_kind"]
    report["verdict"]["lines"][2]["headline"] = "as an earlier release said it"
    json_text.write(path, report)
    rehash(folder)
    shown = invoke("report", folder)
    assert shown.exit_code == 0
    assert "note[MCM-A023]" in shown.stderr
    assert " optimality " in shown.stdout
    report["verdict"]["optimality"] = 3
    json_text.write(path, report)
    rehash(folder)
    assert "MCM-V073" in invoke("report", folder).stderr
