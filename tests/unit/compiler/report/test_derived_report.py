"""`mcmc check` on folders with one invented figure, though all hashes are right."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.derived_report import NOT_DERIVED
from mcm_compiler.report.report_data import build_report
from mcm_compiler.text import json_text
from tests.generators.example_result import example_result
from tools.figure_mutations import (
    Mutation,
    apply,
    mutations,
    one_of_each_field,
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
    found = one_of_each_field(mutations(compiled, random.Random(0)))
    # What a run compares is looked at below.
    found = [m for m in found if not m.field.startswith("verification")]
    assert len(found) > 170
    accepted: list[Mutation] = []
    for mutation in found:
        apply(mutation, folder)
        if refusal(folder, runs=False) is None:
            accepted.append(mutation)
        for name in RESTORED:
            shutil.copyfile(compiled / name, folder / name)
    assert not accepted


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
    assert report.keys() == {*build_report(example_result()), "energy"}
    for name in NOT_DERIVED.keys() - {"sensitivities"}:  # nobody asked for them
        at = report
        for key in name.split("."):
            assert key in at, name
            at = at[key]


@pytest.mark.parametrize("name", ["a/b", "a\\b", "..", "zoo:net"])
def test_a_model_without_a_file_has_one_name_in_report_and_manifest(
    name: str, tmp_path: Path
) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[4] x) => (float[4] y) { y = Neg (x) }'
    model = ir.from_proto(onnx.parser.parse_model(text))
    model.graph.name = name
    compile_model(model, "mcm4", output=tmp_path / "out")
    assert check_folder(tmp_path / "out").holds
