"""`check` against the user's own file, ops of passes without a rule, and what runs did not see."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from onnx import numpy_helper, parser

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import read_manifest
from mcm_compiler.checking.check import CheckReport, check_folder
from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.pipeline.passes import Pass, PassContext
from mcm_compiler.registry import PASSES

TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> m (float[n,64] x) => (float[n,64] y) {'
    " a = MatMul (x, u) b = Relu (a) i = Identity (b) c = MatMul (i, v) y = Tanh (c) }"
)


def model_file(folder: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    proto = parser.parse_model(TEXT)
    for number, node in enumerate(proto.graph.node):
        node.name = f"op{number}"
    for name in "uv":
        weight = rng.standard_normal((64, 64), dtype=np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(weight, name))
    path = folder / "model.onnx"
    onnx.save(proto, path)
    return path


def compiled(folder: Path, model: Path, **options: Any) -> Path:
    chosen = CompileOptions(
        **{"level": 0, "replicas": 1, "inferences": 8, "dims": {"n": 4}, **options}
    )
    compile_model(model, "mcm4", chosen, output=folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("source")
    model = model_file(base)
    return model, compiled(base, model)


def codes(report: CheckReport) -> list[str]:
    return [fault.code for fault in report.diagnostics]


def change(folder: Path, **fields: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_manifest_records_sizes_and_passes(made):
    manifest = read_manifest(made[1])
    assert manifest.dims == {"n": 4}
    assert manifest.pipeline == DEFAULT_PIPELINE
    assert manifest.unfollowed_passes == ()


def test_the_users_file_is_proven(made):
    model, folder = made
    report = check_folder(folder, model=str(model))
    assert report.holds, report.diagnostics
    assert report.structure.whole
    assert report.structure.model == "model.onnx"
    result = CliRunner().invoke(cli, ["check", str(folder), "--model", str(model)])
    assert result.exit_code == 0
    assert "4 of 4 ops proven against 'model.onnx'" in result.stdout


def test_fewer_inputs_are_compared_where_every_op_is_proven(made):
    assert check_folder(made[1]).verification.seeds == (0,)
    assert check_folder(made[1], proven_seeds=None).verification.seeds == (0, 1)
    unproven = check_folder(made[1], without=("source",))
    assert unproven.verification.seeds == (0, 1)


def test_json_tells_ops_and_session_options(made):
    model, folder = made
    arguments = ["check", str(folder), "--model", str(model), "--format", "json"]
    data = json.loads(CliRunner().invoke(cli, arguments).stdout)
    assert data["structure"]["ops"] == data["structure"]["proven"] == 4
    assert data["structure"]["unproven"] == []
    assert data["verification"]["session_options"]["session.disable_prepacking"] == "1"
    assert data["verification"]["stock_equal"] in (True, False)


def test_another_file_is_refused_by_its_hash(made, tmp_path):
    report = check_folder(made[1], model=str(model_file(tmp_path, seed=1)))
    assert codes(report) == ["MCM-V066"]


def test_another_file_is_refused_by_structure_where_the_hash_was_made_right(made, tmp_path):
    other = model_file(tmp_path, seed=1)
    folder = shutil.copytree(made[1], tmp_path / "out")
    (tmp_path / "again").mkdir()
    again = compiled(tmp_path / "again", other)
    change(folder, model_sha256=read_manifest(again).model_sha256)
    # The report has the hash of the model that was compiled.
    assert set(codes(check_folder(folder, model=str(other)))) == {"MCM-V062", "MCM-V073"}


def test_other_sizes_than_the_recorded_ones_are_refused(made, tmp_path):
    folder = shutil.copytree(made[1], tmp_path / "out")
    change(folder, dims={"n": 5})
    # The report says the sizes of the compile.
    assert set(codes(check_folder(folder, model=str(made[0])))) == {"MCM-V067", "MCM-V073"}


@dataclass(frozen=True)
class _Softer(Pass):
    """Puts another op in the place of each Relu."""

    name: ClassVar[str] = "softer"
    summary: ClassVar[str] = "a pass for which there is no rule"

    def run(self, model: ir.Model, context: PassContext) -> None:
        for node in model.graph:
            if node.op_type == "Relu":
                node.op_type = "LeakyRelu"
                node.attributes["alpha"] = ir.AttrFloat32("alpha", 0.0)


@pytest.fixture
def softer() -> Iterator[str]:
    PASSES.add("softer", _Softer, "test")
    yield DEFAULT_PIPELINE.replace("simplify,", "simplify,softer,")
    PASSES.remove("softer")


def test_ops_of_a_pass_without_a_rule_are_left_to_runs(softer, tmp_path):
    folder = compiled(tmp_path, model_file(tmp_path), passes=softer)
    report = check_folder(folder)
    assert report.holds
    assert codes(report) == ["MCM-V063"]
    assert report.verification.seeds == (0, 1)
    proof = report.structure
    assert [op.op_type for op in proof.unproven] == ["LeakyRelu"]
    assert (proof.ops, proof.proven) == (4, 3)
    assert proof.unfollowed_passes == ("softer",)
    told = json.loads((folder / "report.json").read_text())["verification"]["structure"]
    assert told["unproven"][0]["what"] == "is a 'LeakyRelu', the model has a 'Relu'"


def test_the_same_change_without_such_a_pass_is_refused(softer, tmp_path):
    folder = compiled(tmp_path, model_file(tmp_path), passes=softer)
    change(folder, unfollowed_passes=[])
    # The report has it that the pass was not followed.
    assert codes(check_folder(folder)) == ["MCM-V060", "MCM-V073"]


def test_what_the_proof_does_not_follow_is_unproven_and_compared_by_runs(monkeypatch, tmp_path):
    from mcm_passes.pipeline.preparing import Simplify

    right = Simplify.run

    def wrong(self: Simplify, model: ir.Model, context: PassContext) -> None:
        right(self, model, context)
        _Softer().run(model, context)

    monkeypatch.setattr(Simplify, "run", wrong)
    model = model_file(tmp_path)
    folder = compiled(tmp_path, model)
    report = check_folder(folder, model=model)
    assert report.holds, report.diagnostics
    assert codes(report) == ["MCM-V063"]
    assert [fault.code for fault in report.unproven] == ["MCM-U051"]
    # What the report does not record was changed after the compile.
    path = folder / "report.json"
    record = json.loads(path.read_text())
    record["verification"]["structure"]["unproven"] = []
    path.write_text(json.dumps(record))
    files = json.loads((folder / "manifest.json").read_text())["files"]
    change(folder, files=files | {path.name: sha256_file(path)})
    assert "MCM-V060" in codes(check_folder(folder, model=model))


def test_a_built_in_pass_that_errs_fails_the_compile_where_runs_differ(monkeypatch, tmp_path):
    from mcm_passes.pipeline.preparing import Simplify

    def wrong(self: Simplify, model: ir.Model, context: PassContext) -> None:
        del self, context
        for node in model.graph:
            node.op_type = "Tanh" if node.op_type == "Relu" else node.op_type

    monkeypatch.setattr(Simplify, "run", wrong)
    with pytest.raises(CompileError) as found:
        compiled(tmp_path, model_file(tmp_path))
    assert "MCM-V020" in {fault.code for fault in found.value.diagnostics}


def test_swapped_outputs_are_told(tmp_path):
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[8] x) => (float[8] y, float[8] z)'
        " { y = Relu (x) z = Tanh (x) }"
    )
    model = tmp_path / "two.onnx"
    onnx.save(proto, model)
    folder = compiled(tmp_path, model, dims={}, chips=1)
    path = folder / "chip_00.onnx"
    chip = onnx.load(path)
    for node in chip.graph.node:
        node.output[0] = {"y": "z", "z": "y"}[node.output[0]]
    path.write_bytes(chip.SerializeToString())
    files = json.loads((folder / "manifest.json").read_text())["files"]
    change(folder, files=files | {path.name: sha256_file(path)})
    assert codes(check_folder(folder))[:2] == ["MCM-V061", "MCM-V061"]


WEAK = {
    "NaN": (
        "e = Exp (x) n = Neg (e) o = Constant <value_float = 1.0> () z = Sub (n, o) y = Sqrt (z)",
        "NaN",
    ),
    "zeros": ("t = Tanh (x) z = Sub (t, t) y = Relu (z)", "0 in all its elements"),
    "infinite": ("t = Tanh (x) z = Sub (t, t) y = Reciprocal (z)", "infinite"),
}


@pytest.mark.parametrize("name", WEAK)
def test_output_that_shows_nothing_is_a_warning_with_what_was_proven(name, tmp_path):
    body, why = WEAK[name]
    proto = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> m (float[8] x) => (float[8] y) {{ {body} }}'
    )
    model = tmp_path / "weak.onnx"
    onnx.save(proto, model)
    report = check_folder(compiled(tmp_path, model, dims={}))
    assert report.holds
    assert codes(report) == ["MCM-V064"]
    text = report.diagnostics[0].message
    assert why in text
    assert "proven by structure" in text


def test_inputs_of_another_size_are_drawn_where_they_show_more(tmp_path):
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[8] x) => (float[8] y)'
        " { c = Constant <value_float = 9.0> () s = Sub (x, c) y = Relu (s) }"
    )
    model = tmp_path / "threshold.onnx"
    onnx.save(proto, model)
    report = check_folder(compiled(tmp_path, model, dims={}))
    assert report.verification.redraws == ("large",)
    assert report.verification.weak == ()
    assert codes(report) == []


def test_random_ops_and_placeholders_are_proven_too(tmp_path):
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[8] x) => (float[8] y)'
        " { r = RandomNormalLike (x) s = RandomNormalLike (x) d = Sub (r, s) y = Add (d, x) }"
    )
    model = tmp_path / "random.onnx"
    onnx.save(proto, model)
    report = check_folder(compiled(tmp_path, model, dims={}), model=str(model))
    assert report.structure.whole
    spec = "zoo:plain-cnn{shape_only=true}"
    compile_model(spec, "mcm4", CompileOptions(level=0, replicas=1), output=tmp_path / "shapes")
    report = check_folder(tmp_path / "shapes", model=spec)
    assert report.structure.whole
    assert report.structure.model == spec
