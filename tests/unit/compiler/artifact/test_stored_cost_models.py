"""The cost model of an output folder: its table lies there, and `check` needs no other file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.check import check_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.spec_text import print_value
from tests.generators.changed_folders import errors, rehash

TABLE = """node,kernel,op_type,inputs,type,seconds
,y,,,,4e-5
d,,,,,1.5e-5
,,LeakyRelu,64x128,float,6e-6
"""
STORED = "cost_model.file.csv"
SCHEMA = Path(__file__).parents[4] / "docs" / "reference" / "schema" / "report.schema.json"


def model() -> ir.Model:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,128] x) => (float[64,128] o) {'
        " [a] a = MatMul (x, u) [b] b = LeakyRelu (a) [r] r = Sin (x) [e] e = Add (b, r)"
        " [c] c = MatMul (e, v) [d] d = Sin (c) [y] o = MatMul (d, w) }"
    )
    for name in "uvw":
        weight = rng.standard_normal((128, 128), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return ir.from_proto(proto)


def compiled_in(folder: Path, table: str) -> Path:
    (folder / table).write_text(TABLE)
    path = print_value(folder / table)
    table_model = f"table{{file={path}}}"
    options = CompileOptions(chips=3, replicas=1, round=1, inferences=8, cost_model=table_model)
    compile_model(model(), "mcm4", options, output=folder / "out")
    (folder / table).unlink()
    return folder / "out"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_in(tmp_path_factory.mktemp("stored"), "times.csv")


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled, tmp_path / "out")


def test_the_table_lies_in_the_folder_with_its_hash(compiled: Path) -> None:
    assert (compiled / STORED).read_text() == TABLE
    assert read_manifest(compiled).files[STORED] == sha256_file(compiled / STORED)
    text = (compiled / "target.toml").read_text()
    assert f'\n[cost]\nmodel = "table{{file={STORED},' in text


def test_check_simulate_and_report_need_no_other_file(compiled: Path) -> None:
    found = check_folder(compiled)
    assert found.holds
    assert found.complete
    assert found.diagnostics == ()
    for verb in ("simulate", "report"):
        assert CliRunner().invoke(cli, [verb, str(compiled)]).exit_code == 0


def test_the_report_tells_the_cost_model_and_what_it_covers(compiled: Path) -> None:
    report = json.loads((compiled / "report.json").read_text())
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    chosen = report["chosen_cost_model"]
    assert chosen["model"].startswith(f"table{{file={STORED},")
    assert chosen["files"] == {STORED: sha256_file(compiled / STORED)}
    coverage = chosen["coverage"]
    assert (coverage["ops"], coverage["measured_ops"]) == (7, 3)
    assert 0.3 < coverage["measured_share"] < 1.0
    assert report["cost_model"] == "table"
    (note,) = [d for d in report["diagnostics"] if d["code"] == "MCM-C007"]
    assert "3 of 7 ops" in note["message"]
    text = (compiled / "report.md").read_text().replace("\\", "")
    assert f"{chosen['model']}: 3 of 7 ops" in text


def test_no_bound_exceeds_the_simulated_period(compiled: Path) -> None:
    report = json.loads((compiled / "report.json").read_text())
    assert report["lower_bound_s"] <= report["analytic_period_s"] <= report["period_s"]
    assert report["period_s"] >= 4e-5


def test_the_same_table_under_any_name_gives_the_same_bytes(compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    again = compiled_in(tmp_path / "a b", "other.csv")
    files = sorted(path.name for path in compiled.iterdir())
    assert sorted(path.name for path in again.iterdir()) == files
    assert STORED in files
    for name in files:
        assert (again / name).read_bytes() == (compiled / name).read_bytes(), name


@pytest.mark.parametrize("verb", ["check", "simulate", "report"])
def test_a_changed_table_is_found_by_its_hash(folder: Path, verb: str) -> None:
    (folder / STORED).write_text(TABLE.replace("1.5e-5", "1.6e-5"))
    assert errors(folder, verb) == ["MCM-A008"]
    (folder / STORED).unlink()
    assert errors(folder, verb) == ["MCM-A006"]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("1.5e-5", "1.6e-5", "MCM-V042"),
        ("1.5e-5", "nan", "MCM-C005"),
        ("node,kernel", "node,colonel", "MCM-C005"),
    ],
)
def test_a_table_that_was_changed_with_its_hash_is_not_that_of_the_programs(
    folder: Path, old: str, new: str, code: str
) -> None:
    (folder / STORED).write_text(TABLE.replace(old, new))
    rehash(folder)
    assert code in errors(folder)


@pytest.mark.parametrize(
    "path", ["../times.csv", "/etc/passwd", "./cost_model.file.csv", "unlisted.csv", ".."]
)
@pytest.mark.parametrize("verb", ["check", "simulate"])
def test_a_stored_description_names_no_file_but_those_of_the_manifest(
    folder: Path, path: str, verb: str
) -> None:
    for place in (folder.parent / "times.csv", folder / "unlisted.csv"):
        place.write_text(TABLE)
    target = folder / "target.toml"
    target.write_text(target.read_text().replace(STORED, path))
    rehash(folder)
    (folder / "unlisted.csv").unlink()
    assert set(errors(folder, verb)) == {"MCM-C004"}


def test_a_link_instead_of_the_table_is_refused(folder: Path) -> None:
    (folder / STORED).rename(folder.parent / "times.csv")
    (folder / STORED).symlink_to(folder.parent / "times.csv")
    assert errors(folder) == ["MCM-A006"]


def edited(folder: Path, edit: Any) -> None:
    path = folder / "report.json"
    report = json.loads(path.read_text())
    edit(report)
    path.write_text(json.dumps(report))
    rehash(folder)


@pytest.mark.parametrize(
    "edit",
    [
        lambda report: report["chosen_cost_model"]["coverage"].update(measured_share=1.0),
        lambda report: report["chosen_cost_model"]["coverage"].update(measured_ops=7),
        lambda report: report["chosen_cost_model"].update(coverage=None),
        lambda report: report["chosen_cost_model"].update(model="table{file=mine.csv}"),
        lambda report: report["chosen_cost_model"].update(praise="of its author"),
        lambda report: report.pop("chosen_cost_model"),
        lambda report: report.update(chosen_cost_model=None),
    ],
)
def test_what_the_report_says_of_the_cost_model_is_derived_again(folder: Path, edit: Any) -> None:
    edited(folder, edit)
    assert set(errors(folder)) == {"MCM-V073"}


def test_a_folder_without_a_chosen_cost_model_may_not_claim_one(tmp_path: Path) -> None:
    options = CompileOptions(chips=3, replicas=1, inferences=8)
    compile_model(model(), "mcm4", options, output=tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert "chosen_cost_model" not in report
    assert "cost_model" not in report["options"]
    section = {"model": "table", "files": {}, "coverage": None}
    edited(tmp_path / "out", lambda report: report.update(chosen_cost_model=section))
    assert errors(tmp_path / "out") == ["MCM-V073"]


def test_a_description_that_lost_its_cost_model_is_not_that_of_the_folder(folder: Path) -> None:
    target = folder / "target.toml"
    target.write_text(target.read_text().split("[cost]")[0])
    rehash(folder)
    assert "MCM-V042" in errors(folder)
