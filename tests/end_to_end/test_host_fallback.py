"""Models with ops that chips lack, from a target file to a folder that holds, or to a refusal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler import compile_model
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.checking.check import check_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.options import CompileOptions
from mcm_hardware.families.ring.ring_target import RingTarget, mcm4

MODEL = """
m (float[32,64] x, bool c) => (float[32,64] y, float[32,64] z) {
    [a] a = MatMul (x, u)
    [soft] s = Softmax <axis = -1> (a)
    [added] p = Add (s, w)
    [erf] e = Erf (p)
    [out] y = MatMul (e, v)
    [down] h = Cast <to = 10> (a)
    [half] hh = Mul (h, h)
    [up] f = Cast <to = 1> (hh)
    [branch] b = If (c) <
        then_branch = one () => (float[32,64] t) { t = Softmax <axis = -1> (f) },
        else_branch = two () => (float[32,64] o) { o = Relu (f) }
    >
    [last] z = Sigmoid (b)
}
"""
LACKING = 'unsupported_ops = ["Softmax", "Erf", "Add"]\nunsupported_types = ["float16"]'


def description(lists: str = LACKING, **changed: str) -> str:
    text = mcm4().source_text.replace("[chip.mac_array]", f"{lists}\n[chip.mac_array]", 1)
    for old, new in changed.items():
        assert f"{old} = " in text
        text = text.replace(f"{old} = ", f"{new}\n{old} = ", 1)
    return text


def mcmc(*arguments: object) -> Any:
    return CliRunner().invoke(cli, list(map(str, arguments)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fallback")
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {MODEL}')
    for name in "uvw":
        shape = (32, 64) if name == "w" else (64, 64)
        weight = rng.standard_normal(shape, dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    onnx.save(proto, folder / "m.onnx")
    (folder / "npu.toml").write_text(description())
    arguments = ("--replicas", 1, "-O1", "--inferences", 8)
    result = mcmc(
        "compile", folder / "m.onnx", "--target", folder / "npu.toml", "-o", folder / "out",
        *arguments,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    shown = mcmc("report", folder / "out", "--full")
    (folder / "said.txt").write_text(result.output + shown.stdout)
    return folder


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    return shutil.copytree(home / "out", tmp_path / "out")


def test_the_folder_holds_and_its_report_tells_the_cost(home: Path) -> None:
    assert check_folder(home / "out").holds
    report = json.loads((home / "out" / "report.json").read_text())
    found = report["host_fallback"]
    lacking = {(row["because"], row["what"]): row["ops"] for row in found["lacking"]}
    assert lacking == {("op", "Softmax"): 2, ("op", "Add"): 1, ("op", "Erf"): 1,
                       ("type", "FLOAT16"): 3}  # fmt: skip
    assert [row["inside"] for row in found["lacking"] if row["what"] == "Softmax"] == [1]
    trips = {tuple(row["ops"]): row for row in found["round_trips"]}
    # 32 x 64 floats of 16 bits go up and come down; w is the host's, c is one byte.
    size = 32 * 64 * 2
    assert trips["Add", "Erf", "Softmax"]["up_bytes"] == size
    assert trips["Cast", "If", "Mul"]["up_bytes"] == size + 1
    assert found["up_bytes"] == 2 * size + 1
    assert found["down_bytes"] == 2 * size
    assert found["trips"] == 2
    for row in trips.values():
        wires = (row["up_bytes"] + row["down_bytes"]) / 32e9 + 2e-6
        assert row["transfer_s"] == pytest.approx(wires, rel=1e-12)
        assert row["seconds"] == pytest.approx(wires + row["host_s"] + 150e-9, rel=1e-12)
    assert 0 < found["share_of_period"] <= 1
    assert found["chip_s"] == pytest.approx(found["share_of_period"] * report["period_s"])
    assert found["link_share"] < 1
    # Whoever waits for the host works: the bound counts it, and the simulator keeps to it.
    assert report["lower_bound_s"] >= found["seconds"] / 4
    assert report["gap"] >= 0
    said = (home / "said.txt").read_text()
    assert "chips lack Softmax (2 ops), Add (1 op), Erf (1 op), type FLOAT16 (3 ops)" in " ".join(
        said.split()
    )
    assert said.count("warning[MCM-T033]") == 4
    assert "## On the host" in (home / "out" / "report.md").read_text()


def test_program_and_models_say_what_the_host_runs(home: Path) -> None:
    out = home / "out"
    program = json.loads((out / "program.json").read_text())
    kernels = [kernel for chip in program["chips"] for kernel in chip["kernels"]]
    hosted = {tuple(k["nodes"]) for k in kernels if k["engine"] == "host"}
    assert hosted == {("soft", "added", "erf"), ("down", "half", "up", "branch")}
    held = {b["name"] for chip in program["chips"] for b in chip["buffers"]}
    assert {"u", "v"} <= held
    # Neither the weight that only the host reads, nor what stays on the host in between.
    assert not {"w", "s", "p", "h", "hh", "f"} & held
    for path in (*out.glob("chip_*.onnx"), out / "annotated.onnx"):
        for node in onnx.load(path, load_external_data=False).graph.node:
            props = {p.key: p.value for p in node.metadata_props}
            there = any(node.name in nodes for nodes in hosted)
            assert props.get("mcm.runs_on") == ("host" if there else None)
            stages = {c.configuration_id: c.pipeline_stage for c in node.device_configurations}
            assert stages.get("mcm_host") == (0 if there else None)


def change_model(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        for path in folder.glob(name):
            model = onnx.load(path, load_external_data=False)
            for node in model.graph.node:
                change(node)
            path.write_bytes(model.SerializeToString())

    return edit


def unmark(node: Any) -> None:
    kept = [p for p in node.metadata_props if p.key != "mcm.runs_on"]
    del node.metadata_props[:]
    node.metadata_props.extend(kept)


def mark_all(node: Any) -> None:
    if node.op_type in ("MatMul", "Sigmoid"):
        node.metadata_props.add(key="mcm.runs_on", value="host")


def unstage(node: Any) -> None:
    kept = [c for c in node.device_configurations if c.configuration_id != "mcm_host"]
    del node.device_configurations[:]
    node.device_configurations.extend(kept)


def change_report(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "report.json"
        report = json.loads(path.read_text())
        change(report)
        path.write_text(json.dumps(report, indent=2) + "\n")

    return edit


def change_target(old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "target.toml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return edit


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (change_model("chip_*.onnx", unmark), "MCM-V051"),
        (change_model("chip_*.onnx", mark_all), "MCM-V051"),
        (change_model("chip_*.onnx", unstage), "MCM-V051"),
        (change_model("annotated.onnx", unmark), "MCM-V051"),
        (change_target('"Erf", ', ""), "MCM-V051"),
        (change_target('"Erf"', '"Erf", "Sigmoid"'), "MCM-V051"),
        (change_target(LACKING, ""), "MCM-V051"),
        (change_report(lambda r: r.pop("host_fallback")), "MCM-V073"),
        (change_report(lambda r: r["host_fallback"].update(seconds=1e-9)), "MCM-V073"),
        (change_report(lambda r: r["host_fallback"]["lacking"].pop()), "MCM-V073"),
    ],
)
def test_what_was_tampered_with_is_refused(folder: Path, edit: Any, code: str) -> None:
    edit(folder)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {name: sha256_file(folder / name) for name in manifest["files"]}
    manifest["target_sha256"] = manifest["files"]["target.toml"]
    path.write_text(json.dumps(manifest))
    found = check_folder(folder, without=("equality", "source"))
    assert not found.holds
    assert code in {d.code for d in found.diagnostics}


def refused(target: str, home: Path, tmp_path: Path, *more: str) -> list[Any]:
    (tmp_path / "t.toml").write_text(target)
    options = CompileOptions(fallback="error") if more else CompileOptions()
    with pytest.raises(CompileError) as caught:
        compile_model(
            home / "m.onnx", str(tmp_path / "t.toml"), options, output=tmp_path / "refused"
        )
    assert not (tmp_path / "refused").exists()
    return [d for d in caught.value.diagnostics if d.severity is Severity.ERROR]


def test_one_diagnostic_for_each_op_and_each_type(home: Path, tmp_path: Path) -> None:
    found = refused(description(), home, tmp_path, "error")
    assert [d.code for d in found] == ["MCM-T030"] * 4
    softmax, *_, half = found
    assert "'Softmax': 2 ops, 1 with it in a subgraph" in softmax.message
    assert softmax.at == "node 'soft', 'branch'"
    assert "tensors of type FLOAT16: 3 ops, 2 Cast, 1 Mul" in half.message
    assert "--fallback host" in (half.hint or "")


def test_the_target_may_ask_for_the_error(home: Path, tmp_path: Path) -> None:
    strict = description().replace("\n[host]\n", '\n[host]\nfallback = "error"\n')
    assert {d.code for d in refused(strict, home, tmp_path)} == {"MCM-T030"}
    (tmp_path / "t.toml").write_text(strict)
    result = mcmc(
        "opt", home / "m.onnx", "--target", tmp_path / "t.toml", "--fallback", "host",
        "--passes", "fuse",
    )  # fmt: skip
    assert result.exit_code == 0, result.output


def test_chips_without_a_way_to_the_host(home: Path, tmp_path: Path) -> None:
    ends = description().replace('host_io = "any"', 'host_io = "ends"')
    assert {d.code for d in refused(ends, home, tmp_path)} == {"MCM-T031"}


def test_chips_that_would_run_nothing(home: Path, tmp_path: Path) -> None:
    (fault,) = refused(description('supported_types = ["int8"]'), home, tmp_path)
    assert fault.code == "MCM-T032"


def large(lists: str) -> tuple[Any, Any]:
    """A model whose weight fits no chip, and the target."""
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17]>'
        " m (float[2,1024] x) => (float[2,1024] y) { [a] a = MatMul (x, u) [y] y = Relu(a) }"
    )
    weight = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "u"))
    text = description(lists).replace("sram_mib = 64", "sram_mib = 1.5")
    return ir.from_proto(proto), RingTarget.from_text("small", text)


def test_what_only_the_host_reads_need_fit_no_chip(tmp_path: Path) -> None:
    model, target = large('unsupported_ops = ["MatMul"]')
    result = compile_model(model, target, output=tmp_path / "out")
    assert [node.op_type for node in result.model.graph] == ["MatMul", "Relu"]
    assert result.program is not None
    assert all(chip.weight_bytes == 0 for chip in result.program.chips)
    assert check_folder(tmp_path / "out").holds


def test_ops_that_passes_bring_in_are_looked_at() -> None:
    model, target = large('unsupported_ops = ["Concat"]')
    with pytest.raises(CompileError) as caught:
        compile_model(model, target, CompileOptions(fallback="error"))
    assert caught.value.diagnostics[0].code == "MCM-T030"
    result = compile_model(model, target, CompileOptions(round=1))
    assert result.chips is not None
    marked = [n.op_type for c in result.chips for n in c.model.graph
              if n.metadata_props.get("mcm.runs_on") == "host"]  # fmt: skip
    assert marked == ["Concat"]


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(CompileError) as caught:
        CompileOptions(fallback="gpu")  # pyright: ignore[reportArgumentType]
    assert [d.code for d in caught.value.diagnostics] == ["MCM-U004"]
    assert mcmc("compile", "zoo:bert-tiny", "--fallback", "gpu", "-o", "x").exit_code == 2


def test_rows_of_a_large_table_come_from_the_host(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    graph = "m (int64[2] ids) => (float[2,64] y) { x = Gather (table, ids) y = MatMul (x, w) }"
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {graph}')
    for name, rows in (("table", 8192), ("w", 64)):
        weight = rng.standard_normal((rows, 64), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    onnx.save(proto, tmp_path / "m.onnx")
    text = mcm4().source_text.replace("[host]", '[host]\nlarge_tables = "host"', 1)
    (tmp_path / "rows.toml").write_text(text)
    options = ("--replicas", 1, "-O0", "--fallback", "error")
    model, target = tmp_path / "m.onnx", tmp_path / "rows.toml"
    done = mcmc("compile", model, "--target", target, "-o", tmp_path / "out", *options)
    assert done.exit_code == 0, done.output
    assert "MCM-T033" not in done.output
    shown = mcmc("report", tmp_path / "out", "--full")
    assert "tables of Gather (1 op), read by rows" in " ".join(shown.stdout.split())
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert sum(chip["weight_bytes"] for chip in report["chips"]) < 2**20
    (row,) = report["host_fallback"]["round_trips"]
    # Two positions of 32 bits go up, two rows of 64 numbers of 16 bits come down.
    assert (row["up_bytes"], row["down_bytes"]) == (2 * 4, 2 * 64 * 2)
    check_folder(tmp_path / "out")
