"""What is told of measured times: how many ops they are of, and names that are not there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.components.target_loading import package_from_text
from mcm_compiler.contracts.boxes.box import BoxTarget
from mcm_compiler.contracts.cost import NodeCost
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.placed.device_costs import (
    calibrated_devices,
    load_box,
    option_place,
    with_device_costs,
)
from mcm_compiler.placed.profiles import measured_notes, with_profiles
from mcm_hardware.measured_times.table import MeasuredTimes
from tests.generators.placed_models import imported_model

KIND = "[kind.mine]\nrole = 'gpu'\nmemory_mib = 100\nmemory_bandwidth_gb_per_s = 50\n" + (
    "peak_tflop_per_s = 3\nunsupported_ops = ['Tanh']\n[[device]]\nkind = 'mine'\n"
)


def _tabled(rows: str, target: BoxTarget | None = None, kind: str = "k40") -> BoxTarget:
    text = {kind: "table{file=t.csv}"}
    read = {"t.csv": f"node,kernel,op_type,inputs,type,seconds\n{rows}".encode()}.__getitem__
    return with_device_costs(target or load_box("box-2gpu"), text, read, option_place("--x"))


def _notes(target: BoxTarget, model: ir.Model) -> list[Diagnostic]:
    return measured_notes(target, target.step_problem(model), model, {})


def test_ops_count_by_name_and_by_kind() -> None:
    (note,) = _notes(_tabled("op_a,,,,,1\n,,Tanh,64x128,float,2\n,op_z,,,,3\n"), imported_model())
    assert (note.code, note.severity) == ("MCM-D079", Severity.NOTE)
    assert "3 ops have times that were measured on 'k40'" in note.message
    assert "5 others" in note.message


def test_no_op_is_asked_about_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    group_cost = MeasuredTimes.group_cost

    def counted(self: MeasuredTimes, nodes: Sequence[ir.Node]) -> NodeCost:
        asked.extend(node.name or "" for node in nodes)
        return group_cost(self, nodes)

    monkeypatch.setattr(MeasuredTimes, "group_cost", counted)
    (note,) = _notes(_tabled("op_a,,,,,1\n,,Tanh,64x128,float,2\n"), imported_model())
    assert note.message.startswith("2 ops")
    assert asked
    assert len(asked) == len(set(asked))


def test_a_table_of_no_op_of_the_step_is_worth_a_warning() -> None:
    (note,) = _notes(_tabled(",,Tanh,1,float,2\n"), imported_model())
    assert note.severity is Severity.WARNING
    assert "0 ops" in note.message


def test_cost_models_that_measure_nothing_are_not_told_of() -> None:
    box = load_box("box-2gpu")
    assert _notes(box, imported_model()) == []
    priced = with_device_costs(box, {"k40": "cycles"}, {}.__getitem__, option_place("--x"))
    assert _notes(priced, imported_model()) == []


def test_ops_that_the_kind_lacks_were_not_measured_there() -> None:
    text = load_box("box-2gpu").source_text + KIND
    box = package_from_text("mine", text)
    assert isinstance(box, BoxTarget)
    (note,) = _notes(_tabled("op_a,,,,,1\nop_d,,,,,1\n", box, "mine"), imported_model())
    assert note.message.startswith("1 ops")
    times = {"mine": {"op_d": 1.0}}
    model = imported_model()
    profiled = with_profiles(box, times, model.graph)
    with pytest.raises(CompileError) as caught:
        measured_notes(profiled, profiled.step_problem(model), model, times)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-D078"]


def test_names_that_the_step_does_not_have_are_told_with_their_lines() -> None:
    with pytest.raises(CompileError) as caught:
        _notes(_tabled("op_a,,,,,1\nop_aa,,,,,1\n,nobody,,,,1\n"), imported_model())
    assert [(d.code, d.at) for d in caught.value.diagnostics] == [
        ("MCM-C006", "t.csv:3"),
        ("MCM-C006", "t.csv:4"),
    ]
    assert "'op_a'" in (caught.value.diagnostics[0].hint or "")


def test_ops_that_are_gone_from_the_model_may_have_times() -> None:
    model = imported_model()
    gone = next(node for node in model.graph if node.name == "op_z")
    model.graph.outputs.remove(gone.outputs[0])
    model.graph.remove(gone, safe=True)
    (note,) = _notes(_tabled("op_a,,,,,1\nop_z,,,,,1\n"), model)
    assert note.message.startswith("1 ops")


def test_rows_of_a_kind_calibrate_its_other_ops_and_no_other_kind() -> None:
    model, plain = imported_model(), load_box("box-2gpu")
    kinds = plain.box.kinds
    before, slow = plain.step_problem(model), kinds.index("k40")
    op = before.names.index("op_a")
    tabled = _tabled(f"op_a,,,,,{3.0 * float(before.time_s[op, slow])!r}\n")
    target = calibrated_devices(tabled, model.graph)
    after = target.step_problem(model)
    computed = np.isfinite(before.time_s) & (before.time_s > 0)
    ratio = np.where(computed, after.time_s / np.where(computed, before.time_s, 1.0), 1.0)
    assert ratio[computed[:, slow], slow] == pytest.approx(3.0)
    assert (np.delete(ratio, slow, axis=1) == 1.0).all()
    (note,) = _notes(target, model)
    assert note.severity is Severity.WARNING
    assert calibrated_devices(target, model.graph).source_text == target.source_text
