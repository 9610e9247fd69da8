"""`mcmc check` on folders with one invented figure, though all hashes are right."""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.figures_check import check_figures, check_stored_figures
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.derived_report import STATED
from mcm_compiler.report.report_data import build_report
from mcm_compiler.text import json_text
from tests.generators.example_result import example_result
from tools.figure_mutations import (
    Mutation,
    apply,
    leaves,
    mutations,
    one_of_each_field,
    other,
    refusal,
    rehash,
)

RESTORED = (
    "report.json", "report.md", "certificate.json", "certificate.safetensors", "program.json",
    "manifest.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three chips with relays, and a copied mask that all of them read."""
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,128] x, float[64,1] m)'
        " => (float[64,128] y) { n = Neg (m) a = MatMul (x, u) f = Add (a, n) b = LeakyRelu (f)"
        " e = Add (b, n) c = MatMul (e, v) d = Tanh (c) g = Add (d, n) h = Mul (g, x)"
        " y = MatMul (h, w) }"
    )
    for name in "uvw":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    folder = tmp_path_factory.mktemp("invented") / "out"
    options = CompileOptions(chips=3, replicas=1, inferences=8, partitioner="dp")
    compile_model(ir.from_proto(proto), "mcm4", options, output=folder)
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled, tmp_path / "out")


def test_the_folder_holds_as_it_is(compiled: Path) -> None:
    found = check_folder(compiled)
    assert found.holds
    assert found.complete
    assert {"certificate", "bound", "figures"} <= {step.name for step in found.steps}


def test_one_invented_figure_of_each_field_is_refused(compiled: Path, folder: Path) -> None:
    found = [m for m in mutations(compiled, random.Random(0)) if m.file != "report.json"]
    # Of what the manifest states for the report, a field of each form.
    stated = re.compile(
        r"counted\.stated\.(?!strategy|options\.(level|pins)|verification\.outputs)"
    )
    found = [m for m in one_of_each_field(found) if not stated.match(m.field)]
    assert len(found) > 80
    accepted: list[Mutation] = []
    for mutation in found:
        apply(mutation, folder)
        if refusal(folder, runs=False) is None:
            accepted.append(mutation)
        for name in RESTORED:
            shutil.copyfile(compiled / name, folder / name)
    assert not accepted, [m.field for m in accepted]


ASKED: dict[str, tuple[str, CompileOptions]] = {
    "a ring": (
        "mcm4",
        CompileOptions(
            level=1, replicas=1, seed=3, inferences=6, verify_seeds=2, samples=50,
            pins=(("*", 0),), forbidden_chips=(1,), budget_s=60.0, fallback="host", test_data=False,
        ),
    ),
    "few chips": (
        "mcm4",
        CompileOptions(objective="chips", throughput=10.0, inferences=4, shapes={"x": (2, 64)}),
    ),
    "a fabric": (
        "mcm36-fabric",
        CompileOptions(
            chips=1, inferences=2, mapper="annealing{chains=1}", mapping_model="heuristic",
            level=0, routing="strict", max_latency_s=1.0, dims={"n": 2},
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_no_leaf_of_a_report_can_be_altered(name: str, tmp_path: Path) -> None:
    """Whatever was asked for: with the report alone changed, its text and all hashes follow."""
    target, options = ASKED[name]
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> m (float[n,64] x) => (float[n,64] y)'
        " { a = Tanh (x) y = Mul (a, x) }"
    )
    proto = onnx.parser.parse_model(text)
    options = replace(options, shapes=options.shapes or {"x": (2, 64)})
    compile_model(
        ir.from_proto(proto),
        target,
        options,
        output=tmp_path / "out",
        sensitivities=name == "a ring",
    )
    assert refusal(tmp_path / "out") is None
    opened = open_folder(tmp_path / "out")
    report, rng = opened.report, random.Random(0)
    rows: dict[str, list[tuple[str | int, ...]]] = {}
    for path, value in leaves(report):
        rows.setdefault(Mutation("", path, value).field, []).append(path)
    assert {"options.level", "verification.holds", "versions.numpy"} <= rows.keys()
    codes: dict[tuple[str | int, ...], str] = {}
    for path in (path for paths in rows.values() for path in {paths[0], paths[-1]}):
        at: Any = report
        for key in path[:-1]:
            at = at[key]
        value, at[path[-1]] = at[path[-1]], other(at[path[-1]], rng)
        codes[path] = "accepted"
        # What was opened is read once; only the report differs.
        try:
            check_figures(opened, None)
        except CompileError as error:
            codes[path] = error.diagnostics[0].code
        at[path[-1]] = value
    assert {path: code for path, code in codes.items() if code != "MCM-V073"} == {}


@pytest.mark.parametrize("loops", [1, 2])
def test_a_report_whose_times_assume_trip_counts_is_shown(loops: int, tmp_path: Path) -> None:
    """Counts are marked in the models, which nobody reads for a report alone."""
    body = "<body = b (int64 i, bool a, float[8] s) => (bool o, float[8] t) {" \
        " o = Identity (a) t = Tanh (s) }>"  # fmt: skip
    steps = "".join(f" v{n + 1} = Loop (k, c, v{n}) {body}" for n in range(loops))
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[8] v0, int64 k) => (float[8] y)'
        f" {{ c = Constant <value = bool {{1}}> () {steps} y = Neg (v{loops}) }}"
    )
    compile_model(ir.from_proto(proto), "mcm4", CompileOptions(inferences=4), output=tmp_path / "o")
    opened = open_folder(tmp_path / "o")
    assert len(opened.report["assumed_trips"]) == loops
    assert check_stored_figures(opened) is None
    opened.report["assumed_trips"] = {}
    with pytest.raises(CompileError, match="MCM-V073"):
        check_stored_figures(opened)


def test_a_folder_of_an_older_release_states_in_its_report_alone(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["counted"]["stated"]
    json_text.write(path, manifest)
    assert refusal(folder) is None
    apply(Mutation("report.json", ("latency_s",), 1e-9), folder)
    assert refusal(folder, runs=False) == "MCM-V073"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verification", "outputs", 0, "bit_equal"), False),
        (("verification", "outputs", 0, "max_abs_error"), 0.25),
        (("verification", "outputs", 0, "output"), "z"),
        (("verification", "holds"), False),
        (("verification", "seeds"), [7]),
        (("verification", "seeds"), [0, 0]),
        (("verification", "seeds"), []),
        (("verification", "session_options", "graph_optimization_level"), "ORT_ENABLE_ALL"),
        (("verification", "stock_equal"), True),
        (("verification", "steps"), 8),
        (("verification", "structure", "ops"), 500),
        (("verification", "structure", "proven"), 500),
        (("verification", "structure", "unfollowed_passes"), ["simplify"]),
        (("verification", "structure", "model"), "model.onnx"),
        (("model", "dims", "rows"), 65),
        (("options", "dims", "rows"), 64),
        (("options", "shapes", "x"), [64, 128]),
        (("options", "inferences"), 9),
    ],
)
def test_what_a_comparison_is_said_to_have_found(
    folder: Path, path: tuple[str | int, ...], value: object
) -> None:
    apply(Mutation("report.json", path, value), folder)
    assert refusal(folder) == "MCM-V073"


def test_passes_without_rules_are_passes_of_the_pipeline(folder: Path) -> None:
    apply(Mutation("manifest.json", ("unfollowed_passes",), ["theirs"]), folder)
    assert refusal(folder, runs=False) == "MCM-A005"


def change(folder: Path, name: str, *edits: tuple[tuple[str | int, ...], object]) -> None:
    for path, value in edits:
        apply(Mutation(name, path, value), folder)


def test_a_higher_bound_told_everywhere_is_not_shown(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    bound_s = 0.5 * (report["lower_bound_s"] + report["analytic_period_s"])
    if report["lower_bound_s"] == report["analytic_period_s"]:
        bound_s *= 1.01
    for claim in (0, 1):
        change(folder, "certificate.json", (("claims", claim, "seconds"), bound_s))
    change(
        folder,
        "report.json",
        (("lower_bound_s",), bound_s),
        (("gap",), report["period_s"] / bound_s - 1.0),
        (("analytic_gap",), report["analytic_period_s"] / bound_s - 1.0),
        (("replication", "pipeline_bound_s"), bound_s),
    )
    assert refusal(folder, runs=False) == "MCM-V071"


def test_a_report_in_other_words_is_refused(folder: Path) -> None:
    path = folder / "report.md"
    path.write_text(path.read_text().replace("inferences/s", "inferences per s", 1))
    rehash(folder)
    assert refusal(folder, runs=False) == "MCM-V074"


def test_a_key_that_is_there_twice_is_refused(folder: Path) -> None:
    path = folder / "report.json"
    text = path.read_text()
    path.write_text(text.replace('  "period_s"', '  "period_s": 1e-9,\n  "period_s"', 1))
    rehash(folder)
    assert refusal(folder, runs=False) == "MCM-A005"


def test_a_report_that_claims_without_a_certificate(folder: Path) -> None:
    for name in ("certificate.json", "certificate.safetensors"):
        (folder / name).unlink()
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {n: h for n, h in manifest["files"].items() if "certificate" not in n}
    json_text.write(path, manifest)
    assert refusal(folder, runs=False) == "MCM-A020"


def test_every_field_of_a_report_is_derived_or_listed(compiled: Path) -> None:
    report = json.loads((compiled / "report.json").read_text())
    assert report.keys() == {*build_report(example_result()), "divisions", "energy"}
    stated = json.loads((compiled / "manifest.json").read_text())["counted"]["stated"]
    # Nobody asked for sensitivities or sizes, and all options have their defaults.
    assert stated.keys() == STATED.keys() - {"sensitivities", "sizes", "prompt", "option_sources"}
    assert stated["options"].keys() < report["options"].keys()


@pytest.mark.parametrize("name", ["a/b", "a\\b", "..", "zoo:net"])
def test_a_model_without_a_file_has_one_name_in_report_and_manifest(
    name: str, tmp_path: Path
) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[4] x) => (float[4] y) { y = Neg (x) }'
    model = ir.from_proto(onnx.parser.parse_model(text))
    model.graph.name = name
    compile_model(model, "mcm4", output=tmp_path / "out")
    assert check_folder(tmp_path / "out").holds
