"""Folders of placements: what is in them, and what a check finds that somebody changed."""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mcm_compiler.artifact.chain import run_chain
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import is_placement, read_manifest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model, same_bits
from mcm_compiler.ir.reading import importer
from mcm_compiler.ir.rewriting.writer import write_model
from mcm_compiler.placed.folder_check import check_placement_folder
from mcm_compiler.placed.folder_reading import open_placement
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placement_checks import StepOfModel, checked_placement
from mcm_compiler.placed.placement_report import report_text
from mcm_compiler.placed.placing import place_model, step_of_model
from mcm_compiler.text import json_text
from tests.generators.placed_models import place_small, small_model
from tools.figure_mutations import Mutation, leaves, other

DEVICE_COPIES = ("device_bandwidth_gb_per_s = 6", "device_bandwidth_gb_per_s = 7")
"""Between devices of which the small box has too few to copy."""

ROOT = Path(__file__).parents[4]
STEPS = ["files", "placement", "step", "bound", "segments", "equality", "report"]


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("placed") / "out"
    place_small(folder, segments="fewest", pins=(("op_y", "cpu:0"),))
    return folder


@pytest.fixture
def folder(placed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(placed, tmp_path / "out")


def test_an_untouched_folder_holds(placed: Path) -> None:
    found = check_placement_folder(placed)
    assert [step.name for step in found.steps] == STEPS
    assert found.holds
    assert found.complete
    assert found.verification is not None
    assert all(output.bit_equal for output in found.verification.outputs)


@pytest.mark.parametrize("code", ["MCM-U001", "MCM-U002", "MCM-U003"])
def test_a_folder_is_checked_without_its_placer(
    placed: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plug-in is not installed, or an option that it was run with is gone."""

    def gone(text: str) -> None:
        raise CompileError.of(code, "no such placer or option", at=text)

    monkeypatch.setattr("mcm_compiler.contracts.boxes.placers.placer_of", gone)
    assert check_placement_folder(placed).holds
    assert checked_placement(placed).placed.options.placer


def test_segments_in_their_order_are_the_model_to_the_bit(placed: Path) -> None:
    schedule = open_placement(placed).schedule
    assert schedule is not None
    assert [entry.device for entry in schedule.segments] == ["cpu:0", "gpu:0", "cpu:0"]
    feeds = {"x": np.random.default_rng(1).standard_normal((64, 128), dtype=np.float32)}
    files = {entry.segment: entry.file for entry in schedule.segments}
    found = run_chain(placed, files, schedule.wires, ["y", "z"], [feeds])[0]
    wanted = run_model(placed / "annotated.onnx", feeds)
    assert all(same_bits(found[name], wanted[name]) for name in ("y", "z"))


def test_the_annotated_model_says_where_each_op_runs(placed: Path) -> None:
    proto = onnx.load(placed / "annotated.onnx", load_external_data=False)
    devices = [list(c.device) for c in proto.configuration]
    assert devices == [["cpu:0", "gpu:0"]]
    found = {
        node.name: (
            {p.key: p.value for p in node.metadata_props}["layer_ann"],
            node.device_configurations[0].pipeline_stage,
        )
        for node in proto.graph.node
    }
    on_gpu = {name for name, mark in found.items() if mark == ("d1", 1)}
    assert on_gpu == {"op_c", "op_d"}
    assert all(mark == ("d0", 0) for name, mark in found.items() if name not in on_gpu)


def test_the_same_seed_gives_the_same_bytes(placed: Path, tmp_path: Path) -> None:
    place_small(tmp_path / "again", segments="fewest", pins=(("op_y", "cpu:0"),))
    for path in placed.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_a_folder_without_segments_is_checked_without_them(tmp_path: Path) -> None:
    place_small(tmp_path / "out", segments="none")
    found = check_placement_folder(tmp_path / "out")
    assert found.holds
    assert not (tmp_path / "out" / "schedule.json").exists()


def _change(name: str, edit: Callable[[Any], None]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        data = json.loads(path.read_text())
        edit(data)
        path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    return change


def _swap_segments(data: Any) -> None:
    first, second = data["segments"][0], data["segments"][2]
    for key in ("inputs", "outputs", "ops"):
        first[key], second[key] = second[key], first[key]


def _change_weight(folder: Path) -> None:
    path = folder / "segment_001.onnx"
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "offset":
            entry.value = "0" if entry.value != "0" else "65536"
    path.write_bytes(proto.SerializeToString())


def _change_mark(folder: Path) -> None:
    path = folder / "annotated.onnx"
    proto = onnx.load(path, load_external_data=False)
    next(p for p in proto.graph.node[4].metadata_props if p.key == "layer_ann").value = "d0"
    path.write_bytes(proto.SerializeToString())


TAMPERED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a device": (
        _change("placement.json", lambda d: d["device_of"].update(op_c="cpu:0")),
        "placement", "MCM-D080",
    ),
    "a device that a pin forbids": (
        _change("placement.json", lambda d: d["device_of"].update(op_y="gpu:0")),
        "placement", "MCM-D080",
    ),
    "a device that is not there": (
        _change("placement.json", lambda d: d["device_of"].update(op_c="gpu:9")),
        "placement", "MCM-D080",
    ),
    "an op that is not there": (
        _change("placement.json", lambda d: d["device_of"].update(op_q="cpu:0")),
        "placement", "MCM-D080",
    ),
    "a mark": (_change_mark, "placement", "MCM-D080"),
    "a rule": (
        _change("onnxruntime.json", lambda d: d.update(one_session=False)), "placement", "MCM-D080",
    ),
    "the time": (
        _change("placement.json", lambda d: d["step"].update(seconds=1e-9)), "step", "MCM-D081",
    ),
    "a peak": (
        _change("placement.json", lambda d: d["devices"][0].update(peak_bytes=1)),
        "step", "MCM-D081",
    ),
    "the bound": (
        _change("placement.json", lambda d: d["step"].update(bound_s=0.125)), "bound", "MCM-D082",
    ),
    "a weight": (_change_weight, "segments", "MCM-D083"),
    "the schedule": (_change("schedule.json", _swap_segments), "segments", "MCM-D084"),
    "a segment's device": (
        _change("schedule.json", lambda d: d["segments"][1].update(device="cpu:0")),
        "segments", "MCM-D084",
    ),
    "the time of segments": (
        _change("schedule.json", lambda d: d.update(seconds=1.0)), "segments", "MCM-D081",
    ),
    "the report": (lambda folder: _write(folder, "report.md"), "report", "MCM-D081"),
    "a schema": (
        _change("placement.json", lambda d: d.update(schema_version=1)), "placement", "MCM-A005",
    ),
    "outputs of the schedule": (
        _change("schedule.json", lambda d: d.update(outputs=[])), "segments", "MCM-D084",
    ),
    "inputs of the schedule": (
        _change("schedule.json", lambda d: d["inputs"][0].update(shape=[64, 129])),
        "segments", "MCM-D084",
    ),
    "windows": (_change("schedule.json", lambda d: d.update(windows=2)), "segments", "MCM-D084"),
    "the name of a segment's graph": (
        lambda folder: _change_graph(folder, "segment_001.onnx"), "segments", "MCM-D084",
    ),
    "a field that is not one": (
        _change("placement.json", lambda d: d["step"].update(also=1)), "bound", "MCM-D082",
    ),
    "the seed": (
        _change("placement.json", lambda d: d["search"].update(seed=7)), "placement", "MCM-D080",
    ),
    "a pin": (
        _change("placement.json", lambda d: d["asked"].update(pins=[])), "placement", "MCM-D080",
    ),
    "the box": (
        lambda folder: _replace(folder / "target.toml", *DEVICE_COPIES),
        "placement", "MCM-D080",
    ),
    "an affinity": (
        _change("openvino.json", lambda d: d["affinity"].update(op_c="CPU")),
        "placement", "MCM-D080",
    ),
    "an order of segments": (
        _change("schedule.json", lambda d: d["segments"].reverse()), "segments", "MCM-A005",
    ),
}  # fmt: skip


def _change_graph(folder: Path, name: str) -> None:
    proto = onnx.load(folder / name, load_external_data=False)
    proto.graph.name += "x"
    (folder / name).write_bytes(proto.SerializeToString())


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _write(folder: Path, name: str) -> None:
    (folder / name).write_text("all is well")


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_changed_on_purpose_is_found(folder: Path, what: str) -> None:
    change, step, code = TAMPERED[what]
    change(folder)
    _rehash(folder)
    found = check_placement_folder(folder, seeds=(0,))
    assert not found.holds
    assert next(s.name for s in found.steps if not s.holds) == step
    assert code in {d.code for d in found.diagnostics}


@pytest.mark.parametrize(
    "options",
    [
        {"pins": (("op_y", "cpu:0"),), "seed": 3, "placer": "letters"},
        {"kinds": (("op_c", "k40"),), "together": ("op_d", "op_e"), "order": "critical_path"},
    ],
)
def test_no_leaf_of_a_placement_can_be_altered(options: dict[str, Any], tmp_path: Path) -> None:
    """With the placement alone changed; its report and all hashes follow."""
    folder = tmp_path / "out"
    place_small(folder, segments="none", **options)
    path, rng = folder / "placement.json", random.Random(0)
    text = path.read_text()
    by_field: dict[str, Any] = {}
    for place, value in leaves(json.loads(text)):
        key = Mutation("", place, value).field
        by_field.setdefault(key if "device_of" not in key else "device_of", place)
    assert {"search.seed", "asked.order", "model.name", "compiler", "devices[].ops"} <= set(
        by_field
    )
    accepted: list[str] = []
    for name, place in by_field.items():
        at = data = json.loads(text)
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = other(at[place[-1]], rng)
        json_text.write(path, data)
        with contextlib.suppress(CompileError):  # what is no record is refused before
            changed = open_placement(folder, further=True) if _rehash(folder) is None else None
            assert changed is not None
            (folder / "report.md").write_bytes(report_text(changed.record, changed.schedule))
        _rehash(folder)
        if check_placement_folder(folder, seeds=(0,)).holds:
            accepted.append(name)
    assert not accepted


def test_what_was_changed_by_accident_is_found(folder: Path) -> None:
    _write(folder, "openvino.json")
    found = check_placement_folder(folder)
    assert [step.name for step in found.steps] == ["files"]
    assert [d.code for d in found.diagnostics] == ["MCM-A008"]
    (folder / "openvino.json").unlink()
    (folder / "more").write_text("")
    codes = {d.code for d in check_placement_folder(folder).diagnostics}
    assert codes == {"MCM-A006", "MCM-A007"}


def test_a_manifest_may_not_lead_out_of_the_folder(folder: Path) -> None:
    _change("manifest.json", lambda d: d["files"].update({"../x": "0"}))(folder)
    with pytest.raises(CompileError, match="MCM-A005"):
        check_placement_folder(folder)


def test_who_wants_a_compiled_model_is_told(placed: Path, tmp_path: Path) -> None:
    assert is_placement(placed)
    assert not is_placement(tmp_path)
    with pytest.raises(CompileError, match="MCM-D085"):
        read_manifest(placed)


def _rehash(folder: Path) -> None:
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    data["files"] = {name: sha256_file(folder / name) for name in data["files"]}
    path.write_text(json.dumps(data))


def test_a_folder_that_was_made_from_false_shapes_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All files agree with each other, and the step is shorter than the model allows."""
    infer = importer.infer_shapes

    def less(given: ir.Model, *further: object) -> object:
        notes = infer(given, *further)  # type: ignore[arg-type]
        for node in given.graph:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.shape = ir.Shape([1, 128])
        return notes

    monkeypatch.setattr(importer, "infer_shapes", less)
    place_small(tmp_path / "out", segments="none")
    monkeypatch.undo()
    found = check_placement_folder(tmp_path / "out")
    assert [step.name for step in found.steps if not step.holds] == ["placement"]
    assert {d.code for d in found.diagnostics} == {"MCM-V052"}


@pytest.fixture
def of_file(tmp_path: Path) -> tuple[Path, StepOfModel]:
    """A folder that was placed from a file, and the step of that file."""
    path = tmp_path / "small.onnx"
    write_model(small_model(), path)
    asked = PlaceOptions(placer="letters", segments="fewest")
    place_model(path, "box-cpu-gpu", asked, output=tmp_path / "out")
    return tmp_path / "out", partial(step_of_model, str(path))


def test_a_folder_is_compared_with_the_users_own_model(of_file: tuple[Path, StepOfModel]) -> None:
    folder, step_of = of_file
    found = check_placement_folder(folder, seeds=(0,), step_of=step_of)
    assert found.holds
    assert [step.name for step in found.steps] == ["files", "model", *STEPS[1:]]


def _change_byte(folder: Path) -> None:
    content = bytearray((folder / "annotated.onnx.data").read_bytes())
    content[5] ^= 1
    (folder / "annotated.onnx.data").write_bytes(bytes(content))


def _change_hash(folder: Path) -> None:
    _change("placement.json", lambda d: d["model"].update(sha256="0" * 64))(folder)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_change_byte, "MCM-V062"),
        (lambda folder: _change_graph(folder, "annotated.onnx"), "MCM-V062"),
        (_change_mark, "MCM-V062"),
        (_change_hash, "MCM-V066"),
    ],
)
def test_what_only_the_users_own_model_shows_is_found(
    of_file: tuple[Path, StepOfModel], change: Callable[[Path], None], code: str
) -> None:
    folder, step_of = of_file
    change(folder)
    _rehash(folder)
    found = check_placement_folder(folder, seeds=(0,), step_of=step_of)
    assert [step.name for step in found.steps if not step.holds] == ["model"]
    assert {d.code for d in found.diagnostics} == {code}


def test_a_training_step_is_made_again_from_the_users_own_model(tmp_path: Path) -> None:
    model = "zoo:rnnlm{steps=2}"
    asked = PlaceOptions(
        placer="local_search",
        evaluations=60,
        training="differentiate{optimizer=sgd}",
        segments="fewest",
    )
    place_model(model, "box-2gpu", asked, output=tmp_path / "out")
    step_of = partial(step_of_model, model)
    assert check_placement_folder(tmp_path / "out", step_of=step_of).holds
    other = partial(step_of_model, "zoo:rnnlm{steps=3}")
    found = check_placement_folder(tmp_path / "out", step_of=other)
    assert {d.code for d in found.diagnostics} == {"MCM-V066"}


@pytest.mark.parametrize("name", ["bert in box-4core, pinned", "cnn with measured times"])
def test_no_mutant_is_accepted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of the 500 of tools/data/placement_mutations.json."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = importlib.import_module("mutate_placements")
    mutants = importlib.import_module("folder_mutations.placed_mutants")
    folder, model = tool.made(tmp_path / "made", name)
    assert tool.refusal(folder, model) is None
    rng, seen = np.random.default_rng(45), 0
    while seen < 10:
        with mutants.mutated_placement(folder, rng) as mutant:
            if mutant is not None:
                seen += 1
                assert tool.refusal(folder, model) is not None, mutant


def test_record_of_the_long_run_has_no_accepted_mutant() -> None:
    record = json.loads((ROOT / "tools" / "data" / "placement_mutations.json").read_text())
    assert record["mutants"] >= 500
    assert record["accepted"] == 0
