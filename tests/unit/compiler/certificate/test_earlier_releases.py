"""Folders of the release that wrote certificates of schema version 1.

`tests/data/earlier_release` has a model of three ops, compiled by the last commit with that version
(5ca3e4a5): on two chips for the least latency, and with the number of replicas of its choice.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import onnx_ir as ir
import pytest
from safetensors.numpy import load_file, save_file

from mcm_compiler.api import compile_model
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.certificate.bound_check import check_bound
from mcm_compiler.certificate.claims import Certificate
from mcm_compiler.certificate.objective_check import check_objective
from mcm_compiler.checking.certificate_check import check_certificate, not_simulated_again
from mcm_compiler.checking.check import check_folder
from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.checking.figures_check import check_stored_figures
from mcm_compiler.contracts.objectives import Objective, ObjectiveKind
from mcm_compiler.contracts.partition import LearnedGain
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.placed.folder_reading import read_placement_folder
from mcm_hardware.chip.roofline import Roofline, cycle_model
from tools.figure_mutations import rehash

RELEASE = Path(__file__).parents[3] / "data" / "earlier_release"
STORED = RELEASE / "latency"
HEAD, ARRAYS = "certificate.json", "certificate.safetensors"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return shutil.copytree(STORED, tmp_path / "old")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("new") / "out"
    options = CompileOptions(
        chips=2, replicas=1, objective="latency", pins=(("op_a", 0), ("op_y", 1)), inferences=8
    )
    compile_model(STORED / "annotated.onnx", "mcm4", options, output=output)
    return output


@pytest.fixture
def new(compiled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compiled, tmp_path / "new")


def checked(folder: Path) -> tuple[OpenedFolder, Certificate]:
    rehash(folder)
    found = open_folder(folder)
    assert found.certificate is not None
    check_certificate(found, found.certificate)
    return found, found.certificate


def prove(found: OpenedFolder, certificate: Certificate) -> None:
    limits = found.target.limits
    assert certificate.figures is not None
    assert check_bound(certificate, limits)[1] is None
    assert check_objective(certificate, certificate.figures, limits)[1] is None


def test_a_certificate_without_delays_of_host_channels_is_read_and_proven(old: Path) -> None:
    found, certificate = checked(old)
    assert certificate.schema_version == 1
    assert certificate.problem.limits.host_latency_s == 0.0
    assert found.target.limits.host_latency_s > 0.0
    prove(found, certificate)


def test_numbers_of_replicas_that_it_considered_are_derived_again() -> None:
    found = open_folder(RELEASE / "replicas")
    certificate = found.certificate
    assert certificate is not None
    assert [one.replicas for one in certificate.considered] == [1, 2, 4]
    assert certificate.cost_model == found.target.cost_model().name == "roofline"
    check_certificate(found, certificate)
    assert check_bound(certificate, found.target.limits)[1] is None
    step = ("constraints",)
    others = {"files", "structure", "source", "memory", "simulation", "certificate", "bound"}
    report = check_folder(RELEASE / "replicas", without={*others, "equality", "figures"})
    assert tuple(one.name for one in report.steps) == step
    assert report.holds


@pytest.mark.parametrize("version", [1, 2])
def test_a_chosen_cost_model_builds_on_the_own_model_of_its_release(
    old: Path, version: int
) -> None:
    table = old / "cost_model.file.csv"
    table.write_text("node,seconds\nop_a,5e-6\n")
    target = old / "target.toml"
    choice = f"table{{file={table.name},factor=1.0}}"
    target.write_text(f'{target.read_text()}\n[cost]\nmodel = "{choice}"\n')
    edited(lambda head: head.update(schema_version=version, cost_model="table"))(old)
    manifest = json.loads((old / "manifest.json").read_text())
    manifest["target_sha256"] = sha256_file(target)
    manifest["files"][table.name] = sha256_file(table)
    (old / "manifest.json").write_text(json.dumps(manifest))
    rehash(old)
    package = cast("Any", open_folder(old).target)
    shape, kind = ir.Shape([65, 65]), ir.TensorType(ir.DataType.FLOAT)
    node = ir.Node("", "MatMul", [ir.Value(name=n, type=kind, shape=shape) for n in "ab"], name="m")
    node.outputs[0].type, node.outputs[0].shape = kind, shape
    roofline_s, cycles_s = (
        model(package.spec.reference).node_cost(node).seconds for model in (Roofline, cycle_model)
    )
    assert roofline_s < cycles_s
    cost = package.cost_model().node_cost(node)
    assert cost.seconds == (roofline_s if version == 1 else cycles_s)


def test_what_its_release_simulated_counts_as_not_checked(new: Path) -> None:
    stored = open_folder(RELEASE / "replicas").certificate
    found = open_folder(new).certificate
    assert stored is not None
    assert found is not None
    note = not_simulated_again(stored)
    assert note is not None
    assert note.code == "MCM-V072"
    assert note.hint.startswith("re-run `mcmc compile`")
    assert not_simulated_again(found) is None
    placement = stored.placement
    for simulated in (True, False):
        gain = LearnedGain(10.0, simulated, placement, None)
        alone = dataclasses.replace(stored, considered=(), learned=gain)
        assert (not_simulated_again(alone) is not None) == simulated
    # With `--strict` that is an error.
    others = {"source", "memory", "simulation", "bound", "equality", "figures"}
    report = check_folder(RELEASE / "replicas", without=others)
    assert report.holds
    assert not report.complete
    assert "what is simulated of other placements" in report.unproven[0].message


def test_its_report_is_read_with_a_note(old: Path) -> None:
    note = check_stored_figures(open_folder(old))
    assert note is not None
    assert note.code == "MCM-A023"


def test_a_report_next_to_a_certificate_of_version_1_is_read_with_a_note(new: Path) -> None:
    assert check_stored_figures(open_folder(new)) is None
    edited(lambda head: head.update(schema_version=1))(new)
    rehash(new)
    note = check_stored_figures(open_folder(new))
    assert note is not None
    assert note.code == "MCM-A023"


def test_a_new_certificate_states_all_delays(new: Path) -> None:
    found, certificate = checked(new)
    assert certificate.schema_version == 2
    assert certificate.problem.limits == found.target.limits.first(2)
    prove(found, certificate)


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        head = json.loads((folder / HEAD).read_text())
        change(head)
        (folder / HEAD).write_text(json.dumps(head))

    return edit


def in_machine(**values: float) -> Callable[[Path], None]:
    return edited(lambda head: head["machine"].update(values))


def with_delay(number: float) -> Callable[[Path], None]:
    """Another delay of host channels, in the head and in the array of channels."""

    def edit(folder: Path) -> None:
        in_machine(host_latency_s=number)(folder)
        arrays = {name: array.copy() for name, array in load_file(folder / ARRAYS).items()}
        host = (arrays["channel.source"] == -1) | (arrays["channel.destination"] == -1)
        arrays["channel.latency_s"][host] = number
        save_file(arrays, folder / ARRAYS)

    return edit


def without_array(folder: Path) -> None:
    arrays = {n: array for n, array in load_file(folder / ARRAYS).items() if n != "link.latency_s"}
    save_file(arrays, folder / ARRAYS)


def cut_through(folder: Path) -> None:
    path = folder / "target.toml"
    path.write_text(path.read_text().replace("[link]", '[link]\nswitching = "cut_through"'))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["target_sha256"] = sha256_file(path)
    (folder / "manifest.json").write_text(json.dumps(manifest))


DAMAGES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "no delay": ("new", edited(lambda head: head["machine"].pop("host_latency_s")), "MCM-A020"),
    "no delays of links": ("new", without_array, "MCM-A020"),
    "another delay in the head": ("new", in_machine(host_latency_s=0.0), "MCM-A020"),
    "another delay": ("new", with_delay(0.0), "MCM-V070"),
    "a longer delay": ("new", with_delay(2e-6), "MCM-V070"),
    "cut through": ("new", in_machine(cut_through=True), "MCM-V070"),
    "old, a delay that is not the target's": ("old", with_delay(5e-7), "MCM-V070"),
    "old, another rate": ("old", in_machine(host_bytes_per_s=9e9), "MCM-A020"),
    "old, links that cut through": ("old", cut_through, "MCM-V070"),
    "a version that is no number": (
        "old", edited(lambda head: head.update(schema_version=True)), "MCM-A020"),
    "a version of no release": ("old", edited(lambda h: h.update(schema_version=0)), "MCM-A020"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_altered_is_refused(damage: str, request: pytest.FixtureRequest) -> None:
    which, change, code = DAMAGES[damage]
    folder: Path = request.getfixturevalue(which)
    change(folder)
    with pytest.raises(CompileError) as caught:
        checked(folder)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert diagnostic.hint


def test_a_latency_that_only_holds_without_delays_meets_no_limit(old: Path) -> None:
    found, certificate = checked(old)
    figures = certificate.figures
    assert figures is not None
    assert figures.latency_s is not None
    limited = Objective("latency", max_latency_s=1.1 * figures.latency_s)
    asked = dataclasses.replace(figures, objective=limited)
    with pytest.raises(CompileError, match="not within") as caught:
        check_objective(certificate, asked, found.target.limits)
    assert caught.value.diagnostics[0].code == "MCM-V075"


@pytest.mark.parametrize(
    ("kind", "share", "holds"),
    [("energy", 3e-15, True), ("energy", 1e-9, False), ("latency", 3e-15, False)],
)
def test_energies_alone_may_differ_by_the_order_of_their_sums(
    kind: ObjectiveKind, share: float, holds: bool, tmp_path: Path
) -> None:
    options = CompileOptions(chips=2, replicas=1, objective=kind, inferences=8)
    compile_model(STORED / "annotated.onnx", "mcm4", options, output=tmp_path / "out")
    found, certificate = checked(tmp_path / "out")
    figures = certificate.figures
    assert figures is not None
    summed = dataclasses.replace(figures, value=figures.value * (1.0 + share))
    assert summed.value != figures.value
    with nullcontext() if holds else pytest.raises(CompileError, match="it says"):
        check_objective(certificate, summed, found.target.limits)


def test_a_placed_folder_of_another_version_names_both_and_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"kind": "placement", "schema_version": 2}')
    with pytest.raises(CompileError) as caught:
        read_placement_folder(tmp_path)
    (diagnostic,) = caught.value.diagnostics
    assert "schema version 2; this release reads 3" in diagnostic.message
    assert diagnostic.hint == "re-run `mcmc place`"
