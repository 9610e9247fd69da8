"""Rounds of several inferences, from `--round` to runs and checks of the folder."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.api import CompileResult, compile_model
from mcm_compiler.artifact.chain import run_chain
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.entry.run_folder import run_folder
from mcm_compiler.checking.entry.run_pipelined import run_pipelined
from mcm_compiler.checking.structure_step import prove_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.target import HOST, ChipModel, Wire
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.difference.sides import read_package
from mcm_compiler.equivalence.round_classes import RoundClasses
from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.value_numbers import OpKey
from mcm_compiler.execution.runner import open_session, run_model
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_hardware.families.ring.ring_target import RingTarget, mcm4
from tests.generators.changed_folders import rehash

MODEL = """
m (float[8,64] x, float[8,64] y) => (float[8,64] a, float[8,32] b) {
    [first] h = MatMul (x, u)
    [soft] s = Softmax <axis = -1> (h)
    [root] r = Sqrt (c)
    [scaled] t = Mul (s, r)
    [sum] a = Add (t, y)
    [last] b = MatMul (a, v)
}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {MODEL}')
    rng = np.random.default_rng(0)
    for name, shape in (("u", (64, 64)), ("v", (64, 32)), ("c", (1,))):
        weight = rng.random(shape, dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    path = tmp_path_factory.mktemp("rounds") / "m.onnx"
    onnx.save(proto, path)
    return path


def compiled(model: Any, target: Any, folder: Path, **options: Any) -> CompileResult:
    asked = CompileOptions(level=1, inferences=8, **options)
    return compile_model(model, target, asked, output=folder)


def failed_steps(folder: Path, **more: Any) -> set[str]:
    return {step.name for step in check_folder(folder, **more).steps if not step.holds}


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folder") / "out"
    result = compiled(model, "mcm4", path, round=3, replicas=2)
    assert result.replication is not None
    assert (result.replication.replicas, result.replication.round) == (2, 3)
    assert result.verification is not None
    assert result.verification.holds
    assert result.verification.classes == 3
    return path


def test_processes_run_the_rounds_of_all_replicas(folder: Path) -> None:
    rng = np.random.default_rng(1)
    inputs = {name: rng.random((6, 8, 64), dtype=np.float32) for name in ("x", "y")}
    run, expected = run_pipelined(folder, inputs, inferences=1), run_folder(folder, inputs)
    assert run.data["outputs_equal"]
    assert (run.data["replicas"], run.data["round"]) == (2, 3)
    assert run.data["inferences"] == 3 * 40 * 2 * 3
    for name in ("a", "b"):
        np.testing.assert_allclose(run.outputs[name], expected[name], rtol=1e-5)
    chips = [row["chip"] for row in json.loads((folder / "manifest.json").read_text())["placement"]]
    assert [row["chip"] for row in run.data["chips"]] == chips
    busiest = max(row["busy_s"] + row["overhead_s"] for row in run.data["chips"])
    assert 0 < run.data["period_cpu_s"] <= busiest / 3
    assert [note.code for note in run.notes] == (
        [] if len(chips) <= run.data["cores"] else ["MCM-V083"]
    )
    assert (run.data["period_wall_s"] is None) == bool(run.notes)


def test_a_measurement_has_json_a_page_and_times_of_kernels(folder: Path, tmp_path: Path) -> None:
    given, page, busy = (tmp_path / name for name in ("x.npz", "page.html", "busy.json"))
    ones = np.ones((8, 64), np.float32)
    np.savez(given, x=ones, y=ones)
    words = ["run", str(folder), "-i", str(given), "--pipelined", "--html", str(page)]
    more = ["--format", "json", "--write-busy", str(busy)]
    done = CliRunner().invoke(cli, [*words, *more], catch_exceptions=False)
    measured = json.loads(done.stdout)["measured"]
    assert measured["outputs_equal"]
    assert measured["period_cpu_s"] > 0
    text = page.read_text()
    assert "Predicted and measured" in text
    assert "bit-identical to those of the chain" in text
    page.unlink()
    refused = CliRunner().invoke(cli, [word for word in words if word != "--pipelined"])
    assert "--pipelined" in refused.stderr
    assert not page.exists()
    table = tmp_path / "times.csv"
    words = ["measure", str(folder), "--device", "onnxruntime", "--busy", str(busy)]
    CliRunner().invoke(cli, [*words, "-o", str(table)], catch_exceptions=False)
    rows = list(csv.DictReader(table.open()))
    assert {row["how"] for row in rows} == {"busy sums"}
    assert all(float(row["seconds"]) > 0 and "@" not in row["kernel"] for row in rows)
    busy.write_text(busy.read_text().replace('"cores"', '"core"'))
    warned = CliRunner().invoke(cli, [*words, "-o", str(tmp_path / "other.csv")])
    assert "MCM-C013" in warned.stderr


def test_classes_with_the_ops_of_another_do_not_run(folder: Path, model: Path) -> None:
    """A part of the chips runs, and makes what all of them make."""
    opened = open_folder(folder)
    proof = prove_folder(opened)
    assert proof.whole
    assert proof.runs is not None
    assert proof.runs.classes == (0,)
    rng = np.random.default_rng(3)
    feeds = [{n: rng.random((8, 64), dtype=np.float32) for n in "xy"} for _ in range(2)]
    chips, wires = [chip.chip for chip in opened.chips], opened.manifest.wires
    made = run_chain(folder, chips, wires, ["a", "b"], feeds, classes=proof.runs)
    for given, results in zip(feeds, made, strict=True):
        for name, array in run_model(model, given).items():
            assert np.array_equal(results[name], array)


def test_a_class_with_an_op_of_its_own_runs() -> None:
    """Of two classes each makes a value that no other makes."""
    ends = [ir.val(f"x@{k}") for k in (0, 1, 2)]
    nodes = [ir.node("Relu", [value], name=f"r@{k}") for k, value in enumerate(ends)]
    outputs = [node.outputs[0] for node in nodes]
    for k, value in enumerate(outputs):
        value.name = f"y@{k}"
    chip = ChipModel(0, ir.Model(ir.Graph(ends, outputs, nodes=nodes), ir_version=10), (), ())
    wires = [Wire(f"x@{k}", HOST, (0,)) for k in (0, 1, 2)]
    wires += [Wire(f"y@{k}", 0, (HOST,)) for k in (0, 1, 2)]
    runs = RoundClasses([chip], wires).runs(dict(zip(nodes, (7, 7, 8), strict=True)))
    assert runs.classes == (0, 2)
    assert runs.tensors == {(HOST, "x@0"), (HOST, "x@2"), (0, "y@0"), (0, "y@2")}


def test_each_class_of_a_round_draws_for_itself(tmp_path: Path) -> None:
    """Two classes may draw what one op of the model draws; one class may not draw it twice."""
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17]> m (float[8,8] x) => (float[8,8] y) '
        "{ [noise] n = RandomNormalLike (x) [sum] y = Add (x, n) }"
    )
    onnx.save(proto, tmp_path / "m.onnx")
    result = compiled(tmp_path / "m.onnx", "mcm4", tmp_path / "out", round=2, replicas=1)
    assert result.verification is not None
    assert result.verification.structure is not None
    assert result.verification.structure.whole
    identities, key = OwnIdentities(2), OpKey("", "RandomNormal", "", 1, (), (), (True,))
    identities.begin_source()
    own = identities.of(key, "n")
    identities.begin_chips()
    found: list[Any] = []
    for name in ("n@0", "n@1", "m@1", "n"):
        identities.node = name
        found.append(identities.of(key, name))
    assert found[:2] == [own, own]
    assert own not in found[2:]


def test_a_folder_of_rounds_holds_with_figures_per_inference(folder: Path, model: Path) -> None:
    checked = check_folder(folder, model=model)
    assert checked.holds
    (proven,) = (step.detail for step in checked.steps if step.name == "certificate")
    assert "a round of 3 inferences (analytic)" in proven
    manifest = json.loads((folder / "manifest.json").read_text())
    report = json.loads((folder / "report.json").read_text())
    replication = report["replication"]
    assert manifest["counted"]["round"] == replication["round"] == 3
    assert report["period_s"] * 6 == pytest.approx(replication["pipeline_period_s"])
    assert report["lower_bound_s"] <= report["analytic_period_s"]
    lines = [line["text"] if "text" in line else str(line) for line in report["verdict"]["lines"]]
    assert "3 inferences a round" in " ".join(lines)
    stored = [chip["weights"] for chip in manifest["chips"]]
    names = [entry["name"] for entry in stored[0]]
    assert len(names) == len(set(names))


def test_a_diff_has_the_loads_of_an_inference(folder: Path) -> None:
    rows = json.loads((folder / "report.json").read_text())["chips"]
    busy_s = [load.busy_s for load in read_package(folder).loads if load.kind == "compute"]
    assert busy_s == pytest.approx([row["busy_s"] / 3 for row in rows])


def test_inference_i_of_a_run_is_one_of_class_i_modulo_the_round(folder: Path, model: Path) -> None:
    rng = np.random.default_rng(1)
    given = {name: rng.random((6, 8, 64), dtype=np.float32) for name in "xy"}
    made = run_folder(folder, given)
    for i in range(6):
        expected = run_model(model, {name: array[i] for name, array in given.items()})
        for name, array in expected.items():
            assert np.array_equal(made[name][i], array)
    one = run_folder(folder, {name: array[4] for name, array in given.items()})
    assert np.array_equal(one["a"], made["a"][4])


@pytest.mark.parametrize("counts", [(4, 4), (3, 6), (0, 0)])
def test_mcm_v010_inferences_that_fill_no_round(folder: Path, counts: tuple[int, int]) -> None:
    given = {n: np.zeros((c, 8, 64), np.float32) for n, c in zip("xy", counts, strict=True)}
    with pytest.raises(CompileError, match="fill no rounds of 3"):
        run_folder(folder, given)


@pytest.mark.parametrize("tensor", ["a@0", "b@1", "h@2"])
def test_classes_that_are_swapped_or_mixed_are_refused(
    folder: Path, tensor: str, tmp_path: Path
) -> None:
    """An op takes what another class made: each chip still runs, with well-formed wires."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    name, _, index = tensor.partition("@")
    other = f"{name}@{(int(index) + 1) % 3}"
    changed = 0
    for path in sorted(copy.glob("chip_*.onnx")):
        proto = onnx.load(path, load_external_data=False)
        made = {output for node in proto.graph.node for output in node.output}
        if {tensor, other} <= made:
            for node in proto.graph.node:
                swap = {tensor: other, other: tensor}
                outputs = [swap.get(one, one) for one in node.output]
                changed += outputs != list(node.output)
                node.output[:] = outputs
        onnx.save(proto, path)
    assert changed == 2
    rehash(copy)
    assert "source" in failed_steps(copy)


def test_a_round_in_the_manifest_that_is_not_the_chips_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["counted"]["round"] = 2
    path.write_text(json.dumps(manifest))
    assert "structure" in failed_steps(copy)


def test_ops_of_the_host_run_once_a_class(model: Path, tmp_path: Path) -> None:
    text = mcm4().source_text.replace(
        "[chip.mac_array]", 'unsupported_ops = ["Softmax"]\n[chip.mac_array]', 1
    )
    target = RingTarget.from_text("npu", text)
    result = compiled(model, target, tmp_path / "out", round=2, replicas=1)
    assert result.report is not None
    assert result.report["host_fallback"]["trips"] == 2
    assert check_folder(tmp_path / "out").holds


@pytest.mark.parametrize("target", ["mesh36", "mixed16"])
def test_rounds_on_meshes_and_on_kinds_of_chips(target: str, model: Path, tmp_path: Path) -> None:
    compiled(model, target, tmp_path / "out", round=2, chips=4, replicas=1)
    assert check_folder(tmp_path / "out").holds


def test_ops_that_fit_no_chip_are_divided_before_the_graph_is_unrolled(tmp_path: Path) -> None:
    """Its output fits no chip, too, and leaves each class in pieces."""
    text = (
        mcm4()
        .source_text.replace("sram_mib = 64", "sram_mib = 1")
        .replace("num_chips = 4", "num_chips = 24")
    )
    target = RingTarget.from_text("small", text)
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 17]> '
        "m (float[128,64] x) => (float[128,12288] z) { r = Relu (x) z = MatMul (r, w) }"
    )
    weight = np.random.default_rng(2).random((64, 12288), dtype=np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, tmp_path / "m.onnx")
    passes = DEFAULT_PIPELINE.replace("parallelize", "parallelize{fraction=0.5}")
    path, out = tmp_path / "m.onnx", tmp_path / "out"
    result = compiled(path, target, out, round=2, replicas=1, passes=passes)
    parts = {w.part.graph_output for w in result.wires or () if w.part is not None}
    assert parts == {"z@0", "z@1"}
    assert check_folder(out).holds


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "latency"}, "about one inference"),
        ({"objective": "chips", "throughput": 10.0}, "about one inference"),
    ],
)
def test_mcm_p065_what_excludes_rounds(options: dict[str, Any], words: str, model: Path) -> None:
    with pytest.raises(CompileError, match=rf"MCM-P065.*{words}"):
        compile_model(model, "mcm4", CompileOptions(round=2, level=0, **options))


@pytest.mark.parametrize("count", ["0", "-1", "257"])
def test_a_round_out_of_range_is_refused(count: str, model: Path) -> None:
    done = CliRunner().invoke(cli, ["compile", str(model), "--target", "mcm4", "--round", count])
    assert done.exit_code != 0
    assert "round" in done.output


def test_an_op_that_reads_two_classes_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    path, proto = next(
        (path, proto)
        for path in sorted(copy.glob("chip_*.onnx"))
        for proto in [onnx.load(path, load_external_data=False)]
        if any("t@0" in node.input for node in proto.graph.node)
    )
    taken = {value.name for value in proto.graph.input}
    (reader,) = (node for node in proto.graph.node if "t@0" in node.input)
    other = next(name for name in ("y@1", "y@2") if name in taken)
    reader.input[:] = [other if name == "y@0" else name for name in reader.input]
    proto.graph.input.remove(next(v for v in proto.graph.input if v.name == "y@0"))
    onnx.save(proto, path)
    chip = int(path.stem.removeprefix("chip_"))
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["wires"] = [w for w in manifest["wires"] if w["tensor"] != "y@0"]
    entry = next(entry for entry in manifest["chips"] if entry["chip"] == chip)
    entry["inputs"].remove("y@0")
    entry["receives"] = [row for row in entry["receives"] if row[0] != "y@0"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    rehash(copy)
    report = check_folder(copy)
    assert "source" in {step.name for step in report.steps if not step.holds}
    assert any("reads inputs of the classes 0, " in fault.message for fault in report.diagnostics)


@pytest.fixture(scope="module")
def shared(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose chips 0 and 1 store one weight: classes of an op are pinned there."""
    path = tmp_path_factory.mktemp("shared") / "out"
    pins = {"first@0": 0, "first@1": 1}
    compiled(model, "mcm4", path, round=2, replicas=1, pins=pins)
    return path


def test_a_weight_that_chips_share_is_stored_once(shared: Path) -> None:
    manifest = json.loads((shared / "manifest.json").read_text())
    needed = {chip["chip"]: chip.get("shared_data") for chip in manifest["chips"]}
    assert needed[0] == needed[1] == ["shared_00.onnx.data"]
    assert (shared / "shared_00.onnx.data").stat().st_size == 64 * 64 * 4
    assert sum(path.stat().st_size for path in shared.glob("*.data")) < 64 * 96 * 4 + 8192
    for chip in manifest["chips"]:
        path = shared / chip["file"]
        open_session(path)  # stock onnxruntime finds the weights
        places = {
            entry.value
            for tensor in onnx.load(path, load_external_data=False).graph.initializer
            for entry in tensor.external_data
            if entry.key == "location"
        }
        assert places <= {f"{path.name}.data", *chip.get("shared_data", ())}
    assert check_folder(shared).holds


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("location", "../shared_00.onnx.data", "MCM-I021"),
        ("location", "/etc/passwd", "MCM-I021"),
        ("location", "shared_07.onnx.data", "MCM-I020"),
        ("offset", str(1 << 40), "MCM-I022"),
        ("offset", "-4096", "MCM-A005"),
        ("location", "annotated.onnx", "MCM-I022"),
    ],
)
def test_a_place_of_a_shared_weight_outside_its_file(
    shared: Path, tmp_path: Path, key: str, value: str, code: str
) -> None:
    changed = Path(shutil.copytree(shared, tmp_path / "out"))
    path = changed / "chip_01.onnx"
    proto = onnx.load(path, load_external_data=False)
    entries = [e for t in proto.graph.initializer for e in t.external_data if e.key == key]
    assert entries
    entries[0].value = value
    path.write_bytes(proto.SerializeToString(deterministic=True))
    rehash(changed)
    assert code in {found.code for found in check_folder(changed).diagnostics}


def test_the_manifest_says_which_files_a_chip_needs(shared: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(shared, tmp_path / "out"))
    manifest = json.loads((changed / "manifest.json").read_text())
    del manifest["chips"][0]["shared_data"]
    (changed / "manifest.json").write_text(json.dumps(manifest))
    steps = [step for step in check_folder(changed).steps if not step.holds]
    assert "shared_data of 'chip_00.onnx'" in str(steps)
