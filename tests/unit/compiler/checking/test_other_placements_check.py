"""`mcmc check` on what a certificate stores besides its placement: other counts, and learning."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from safetensors.numpy import load_file, save_file

from mcm_compiler.api import compile_model
from mcm_compiler.checking.check import check_folder
from mcm_compiler.options import CompileOptions
from tools.figure_mutations import Mutation, apply, mutations, one_of_each_field, refusal, rehash

HEAD, ARRAYS, REPORT = "certificate.json", "certificate.safetensors", "report.json"
OTHERS = ("considered", "learned", "replication.considered")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of which one chip holds too little, divided by search with learning."""
    rng = np.random.default_rng(0)
    # Branches of unequal work, so that cuts of one order do not meet the bound.
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[64,512] x) => (float[64,512] y)'
        " { a = MatMul (x, p) b = MatMul (x, q) c = MatMul (x, r) d = MatMul (x, s)"
        " e = MatMul (a, t) f = MatMul (b, u) g = MatMul (c, v) i = Tanh (d) j = Add (e, f)"
        " k = Add (g, i) l = Add (j, k) y = MatMul (l, w) }"
    )
    for name in "pqrstuvw":
        weight = rng.standard_normal((512, 512), dtype=np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    folder = tmp_path_factory.mktemp("others") / "out"
    search = 'portfolio{members="dp;rl{start=known,samples=20}",slack=1.0}'
    # At this level a small gap does not end the search before it learns.
    options = CompileOptions(
        level=3, chips=3, inferences=8, partitioner=search, cost_model="roofline"
    )
    target = folder.parent / "small.toml"
    small = (
        Path(__file__).parents[4] / "hardware/mcm_hardware/families/ring/targets/mcm4.toml"
    ).read_text()
    target.write_text(small.replace("sram_mib = 64", "sram_mib = 4"))
    compile_model(ir.from_proto(proto), str(target), options, output=folder)
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled, tmp_path / "out")


def test_the_folder_holds_as_it_is(compiled: Path) -> None:
    head = json.loads((compiled / HEAD).read_text())
    assert [row["placements"] for row in head["considered"]] == [1, 0]
    assert head["learned"]["learned"]
    found = check_folder(compiled, seeds=(0,))
    assert found.holds
    assert found.complete


def test_one_invented_figure_of_each_field_is_refused(compiled: Path, folder: Path) -> None:
    found = [
        one
        for one in one_of_each_field(mutations(compiled, random.Random(1)))
        if one.field.startswith(OTHERS) or one.field == "learned_gain"
        # What a bound says in words is compared with nothing.
        if not one.field.endswith("argument")
    ]
    assert {one.file for one in found} == {HEAD, ARRAYS, REPORT}
    assert len(found) > 15
    accepted: list[Mutation] = []
    for mutation in found:
        apply(mutation, folder)
        if refusal(folder, runs=False) is None:
            accepted.append(mutation)
        for path in compiled.glob("*.*"):
            shutil.copyfile(path, folder / path.name)
    assert not accepted


def both(folder: Path, report: tuple[str | int, ...], head: tuple[str | int, ...], factor: float):
    """Changes a figure of the report and the one of the certificate that it comes from."""
    for name, path in ((REPORT, report), (HEAD, head)):
        value = json.loads((folder / name).read_text())
        for key in path:
            value = value[key]
        apply(Mutation(name, path, value * factor), folder)


@pytest.mark.parametrize(
    ("shown", "stored", "factor", "code"),
    [
        ("analytic_period_s", ("period_s",), 0.9, "MCM-V070"),
        ("simulated_period_s", ("simulated_period_s",), 1.1, "MCM-V070"),
        ("lower_bound_s", ("bound", "seconds"), 1.2, "MCM-V071"),
    ],
)
def test_a_figure_invented_in_both_files_is_refused(
    folder: Path, shown: str, stored: tuple[str, ...], factor: float, code: str
) -> None:
    at = ("considered", 0)
    both(folder, ("replication", *at, shown), (*at, *stored), factor)
    assert refusal(folder, runs=False) == code


def test_a_gain_of_learning_invented_in_both_files_is_refused(folder: Path) -> None:
    for name, path in ((REPORT, ("learned_gain",)), (HEAD, ("learned", "share"))):
        apply(Mutation(name, path, 0.5), folder)
    assert refusal(folder, runs=False) == "MCM-V070"


def test_a_number_of_pipelines_that_is_left_out_is_refused(folder: Path) -> None:
    for name, keys in ((REPORT, ("replication",)), (HEAD, ())):
        data = json.loads((folder / name).read_text())
        for key in keys:
            data = data[key]
        apply(Mutation(name, (*keys, "considered"), data["considered"][:-1]), folder)
    assert refusal(folder, runs=False) == "MCM-V070"


def test_placements_that_are_cut_off_are_refused(folder: Path) -> None:
    arrays = dict(load_file(folder / ARRAYS))
    arrays["considered.0.device"] = arrays["considered.0.device"][:-1]
    save_file(arrays, folder / ARRAYS)
    rehash(folder)
    assert refusal(folder, runs=False) == "MCM-A020"
