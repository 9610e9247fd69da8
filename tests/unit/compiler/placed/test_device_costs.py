"""Cost models by kind of device: who takes them, their files, and the table in descriptions."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker, with_cost_model
from mcm_compiler.components.cost_files import held_files, user_files, with_cost_model_text
from mcm_compiler.components.target_loading import package_from_text
from mcm_compiler.contracts.cost import NodeCost
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.placed.device_costs import (
    TakesDeviceCosts,
    device_choices,
    load_box,
    option_place,
    with_device_costs,
)
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model
from mcm_compiler.registry import COST_MODELS, register
from mcm_hardware.families.box.box_package import BoxPackage
from tests.generators.placed_models import imported_model, small_model

BOX = load_box("box-2gpu").source_text
NOTHING = user_files(None)


@dataclass(frozen=True)
class Flat:
    """One time for every op."""

    seconds: Any
    name: str = "flat-device"

    def node_cost(self, node: ir.Node) -> NodeCost:
        return self.group_cost((node,))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        if isinstance(self.seconds, str):
            raise KeyError(self.seconds)
        return NodeCost(1.0, 1, 1, 0, self.seconds, "vector")


@dataclass(frozen=True)
class FlatDevice(CostModelMaker):
    """The maker of `Flat`, as a plug-in would register it."""

    name: ClassVar[str] = "flat-device"
    summary: ClassVar[str] = "one time for every op of a device"
    seen: ClassVar[list[CostBasis]] = []

    seconds: float = 1.0
    broken: str = ""

    def make(self, basis: CostBasis) -> Any:
        self.seen.append(basis)
        return Flat(self.broken or self.seconds)


@pytest.fixture(autouse=True)
def flat() -> Generator[None]:
    register("cost-model")(FlatDevice)
    FlatDevice.seen.clear()
    yield
    COST_MODELS.remove("flat-device")


def only(caught: pytest.ExceptionInfo[CompileError]) -> Diagnostic:
    (found,) = caught.value.diagnostics
    return found


def priced(texts: Mapping[str, str], target: Any = None, files: Any = None) -> BoxPackage:
    read = held_files(files or {})
    box = with_device_costs(target or load_box("box-2gpu"), texts, read, option_place("--x"))
    assert isinstance(box, BoxPackage)
    return box


def test_a_plug_ins_model_gives_the_times_of_its_kind_alone() -> None:
    model = imported_model()
    own = load_box("box-2gpu").step_problem(model)
    step = priced({"k40": "flat-device{seconds=2}"}).step_problem(model)
    assert np.array_equal(step.time_s[:, 0], own.time_s[:, 0])
    assert dict(zip(step.names, step.time_s[:, 1].tolist(), strict=True)) == {
        name: 0.0 if name == "x" else 2.0 for name in own.names
    }


def test_what_a_model_may_build_on_is_that_of_its_kind() -> None:
    box = priced({"haswell": "flat-device"})
    (basis,) = FlatDevice.seen
    assert basis.own is basis.played
    assert list(basis.numbers) == ["haswell"]
    assert basis.numbers["haswell"]["peak_tflop_per_s"] == box.spec.kinds[0].flops_per_s / 1e12
    model = imported_model()
    node = next(iter(model.graph))
    own = load_box("box-2gpu").step_problem(model)
    assert basis.own.node_cost(node).seconds == own.time_s[own.names.index("op_a"), 0]


@pytest.mark.parametrize("text", ["roofline", "cycles"])
def test_the_models_of_a_target_are_the_boxs_own(text: str) -> None:
    model = imported_model()
    own = load_box("box-2gpu").step_problem(model)
    step = priced({"k40": text, "haswell": text}).step_problem(model)
    assert np.array_equal(step.time_s, own.time_s)


def test_nothing_asked_changes_nothing() -> None:
    box = load_box("box-2gpu")
    assert priced({}, box) is box
    assert isinstance(box, TakesDeviceCosts)
    assert device_choices(box) == device_choices(object()) == {}
    assert box.device_costs("k40").name == "device-roofline"


def test_files_of_kinds_have_names_of_their_own() -> None:
    files = {"t.csv": b"node,seconds\nop_a,3\n", "u.csv": b"node,chip,seconds\nop_a,k40,4\n"}
    texts = {"haswell": "table{file=t.csv}", "k40": "table{file=u.csv,chip=k40}"}
    box = priced(texts, files=files)
    stored = {kind: dict(choice.stored) for kind, choice in device_choices(box).items()}
    assert stored == {
        "haswell": {"cost_model.haswell.file.csv": files["t.csv"]},
        "k40": {"cost_model.k40.file.csv": files["u.csv"]},
    }
    assert box.source_text == BOX.rstrip() + (
        '\n\n[cost]\nk40 = "table{file=cost_model.k40.file.csv,chip=k40}"\n'
        'haswell = "table{file=cost_model.haswell.file.csv}"\n'
    )
    step = box.step_problem(imported_model())
    assert step.time_s[step.names.index("op_a")].tolist() == [3.0, 4.0]
    # The description says it all, with the files at hand.
    again = package_from_text(
        "again", box.source_text, None, held_files(stored["k40"] | stored["haswell"])
    )
    assert isinstance(again, BoxPackage)
    assert again.source_text == box.source_text
    assert np.array_equal(again.step_problem(imported_model()).time_s, step.time_s)


def test_a_later_choice_wins_and_others_stay() -> None:
    box = priced({"haswell": "cycles"}, priced({"haswell": "flat-device", "k40": "flat-device"}))
    assert {kind: choice.text for kind, choice in box.cost_choices.items()} == {
        "haswell": "cycles",
        "k40": "flat-device",
    }
    assert box.source_text.count("haswell =") == 1
    assert box.details()["haswell"]["cost_model"] == "cycles"


@pytest.mark.parametrize(
    ("texts", "code", "at"),
    [
        ({"k80": "cycles"}, "MCM-D070", "option --x 'k80'"),
        ({"k40": "cyclse"}, "MCM-U003", "option --x 'k40'"),
        ({"k40": "cycles{"}, "MCM-U001", "option --x 'k40'"),
        ({"k40": "table"}, "MCM-U002", "option --x 'k40'"),
        ({"k40": "table{file=gone.csv}"}, "MCM-C004", "gone.csv"),
        ({"k40": "table{file=bad.csv}"}, "MCM-C005", "bad.csv:2"),
    ],
)
def test_what_cannot_be_chosen_is_told(texts: Mapping[str, str], code: str, at: str) -> None:
    with pytest.raises(CompileError) as caught:
        priced(texts, files={"bad.csv": b"node,seconds\na,-1\n"})
    assert (only(caught).code, only(caught).at) == (code, at)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_a_time_that_is_none_names_the_op(seconds: float) -> None:
    asked = PlaceOptions(cost_models={"k40": f"flat-device{{seconds={seconds}}}"})
    with pytest.raises(CompileError) as caught:
        place_model(small_model(), "box-2gpu", asked)
    assert only(caught).code == "MCM-C002"
    assert only(caught).at == "node 'op_a' (MatMul)"


def test_a_model_that_raises_is_no_stack_trace() -> None:
    asked = PlaceOptions(cost_models={"k40": "flat-device{broken=oops}"})
    with pytest.raises(CompileError) as caught:
        place_model(small_model(), "box-2gpu", asked)
    assert only(caught).code == "MCM-C001"
    assert "KeyError" in only(caught).message


def test_a_box_that_takes_none_says_so() -> None:
    class Fixed:
        name = "fixed"

    with pytest.raises(CompileError) as caught:
        with_device_costs(Fixed(), {"k40": "cycles"}, NOTHING, option_place("--cost-model"))
    assert (only(caught).code, only(caught).at) == ("MCM-C003", "option --cost-model 'k40'")


def test_a_box_takes_no_model_for_all_kinds_at_once() -> None:
    with pytest.raises(CompileError) as caught:
        with_cost_model(load_box("box-2gpu"), "cycles", NOTHING)
    assert only(caught).code == "MCM-C003"
    assert "KIND=MODEL" in (only(caught).hint or "")


# Descriptions


def described(folder: Path, cost: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(f"{BOX}\n{cost}\n")
    (folder / "times.csv").write_text("node,seconds\nop_a,3\n")
    return path


def test_a_description_names_models_and_files_beside_it(tmp_path: Path) -> None:
    path = described(tmp_path, '[cost]\nk40 = "table{file=times.csv}"  # of March')
    step = load_box(str(path)).step_problem(imported_model())
    assert step.time_s[step.names.index("op_a"), 1] == 3.0
    assert load_box(str(path)).source_text.endswith(
        '[cost]\nk40 = "table{file=cost_model.k40.file.csv}"\n'
    )


def test_an_option_overrides_the_description(tmp_path: Path) -> None:
    path = described(tmp_path, '[cost]\nk40 = "flat-device"\nhaswell = "flat-device"')
    asked = PlaceOptions(placer="cpu", cost_models={"k40": "cycles"})
    placed = place_model(small_model(), str(path), asked)
    texts = {kind: choice.text for kind, choice in device_choices(placed.target).items()}
    assert texts == {"haswell": "flat-device", "k40": "cycles"}
    assert placed.seconds == 8.0
    profile = PlaceOptions(placer="cpu", times={"haswell": {"op_a": 0.5}})
    assert place_model(small_model(), str(path), profile).seconds < 8.0


@pytest.mark.parametrize(
    ("cost", "code", "at"),
    [
        ('[cost]\nk80 = "cycles"', "MCM-D070", "cost.k80"),
        ('[cost]\nmodel = "cycles"', "MCM-D070", "cost.model"),
        ("[cost]\nk40 = 3", "MCM-T004", "cost.k40"),
        ("[cost.k40]\nmodel = 'cycles'", "MCM-T004", "cost.k40"),
        ('[cost]\nk40 = "cyclse"', "MCM-U003", "cost.k40"),
        ('[[cost]]\nk40 = "cycles"', "MCM-T004", "cost"),
    ],
)
def test_faults_of_the_table_are_told_with_their_lines(
    tmp_path: Path, cost: str, code: str, at: str
) -> None:
    path = described(tmp_path, cost)
    with pytest.raises(CompileError) as caught:
        load_box(str(path))
    assert only(caught).code == code
    assert (only(caught).at or "").startswith(f"{path}:")
    assert (only(caught).at or "").endswith(f": '{at}'")


def test_a_description_without_a_folder_names_no_files() -> None:
    text = BOX + '\n[cost]\nk40 = "table{file=/etc/passwd}"\n'
    for make in (
        lambda: package_from_text("loose", text),
        lambda: BoxPackage.from_text("loose", text).device_costs("k40"),
        lambda: place_model(small_model(), BoxPackage.from_text("loose", text)),
    ):
        with pytest.raises(CompileError) as caught:
            make()
        assert only(caught).code == "MCM-C004"


def test_a_box_in_memory_has_the_models_that_its_description_names() -> None:
    box = BoxPackage.from_text("mine", BOX + '\n[cost]\nhaswell = "flat-device{ seconds = 2 }"\n')
    assert box.device_costs("haswell").name == "flat-device"
    placed = place_model(small_model(), box, PlaceOptions(placer="cpu"))
    assert placed.seconds == 16.0
    assert device_choices(placed.target)["haswell"].text == "flat-device{seconds=2.0}"


@pytest.mark.parametrize(
    "given",
    [
        "",
        '\n[cost]\nk40 = "cycles"\n',
        '\n[cost]   # here\n  "k40"="cycles" # and there\nhaswell = "cycles"\n',
        "\n['cost']\n",
        "\n[cost]",
    ],
)
def test_descriptions_are_rewritten_once(given: str) -> None:
    once = with_cost_model_text("mine", BOX + given, 'table{file="a b"}', "k40")
    loose = package_from_text("mine", once.replace('table{file=\\"a b\\"}', "roofline"))
    assert isinstance(loose, BoxPackage)
    assert loose.cost_choices["k40"].text == "roofline"
    assert ("haswell" in loose.cost_choices) == ("haswell" in given)
    assert with_cost_model_text("mine", once, 'table{file="a b"}', "k40") == once


@pytest.mark.parametrize("kind", ["k40", "haswell"])
def test_a_form_that_cannot_be_rewritten_is_refused(kind: str) -> None:
    with pytest.raises(CompileError) as caught:
        with_cost_model_text("mine", 'cost = { k40 = "cycles" }\n' + BOX, "roofline", kind)
    assert only(caught).code == "MCM-C008"
    assert f'{kind} = "..."' in (only(caught).hint or "")


def test_targets_show_and_validate_know_the_table(tmp_path: Path) -> None:
    path = str(described(tmp_path, '[cost]\nk40 = "table{file=times.csv}"'))
    shown = CliRunner().invoke(cli, ["targets", "show", path])
    assert "table{file=cost_model.k40.file.csv}" in shown.stdout
    assert CliRunner().invoke(cli, ["targets", "validate", path]).exit_code == 0
    (tmp_path / "times.csv").write_text("node,seconds\na,-1\n")
    refused = CliRunner().invoke(cli, ["targets", "validate", path])
    assert refused.exit_code == 1
    assert "MCM-C005" in refused.stderr
