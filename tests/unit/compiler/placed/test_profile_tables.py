"""Profiles as tables of measured times: which rows they have, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from mcm_compiler.api import import_named
from mcm_compiler.components import cost_files
from mcm_compiler.contracts.boxes.box import INPUT, StepProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.placed.device_costs import load_box
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model
from mcm_compiler.placed.profiles import refuse_contradictions, table_of, with_profiles
from mcm_hardware.measured_times.times_file import read_times
from tests.generators.placed_models import imported_model

Times = Mapping[str, Mapping[str, float]]


def _only(caught: pytest.ExceptionInfo[CompileError]) -> Diagnostic:
    (found,) = caught.value.diagnostics
    return found


def _step(times: Times, target: str = "box-2gpu") -> StepProblem:
    model = imported_model()
    return with_profiles(load_box(target), times, model.graph).step_problem(model)


def test_measured_times_hold_on_their_kind_alone() -> None:
    plain = _step({})
    measured = _step({"k40": {"op_c": 7.0, "op_z": 0.0, "unknown": 1.0}})
    wanted = plain.time_s.copy()
    wanted[plain.names.index("op_c"), 1] = 7.0
    wanted[plain.names.index("op_z"), 1] = 0.0
    # All others keep their times to the bit.
    assert np.array_equal(measured.time_s, wanted)


@pytest.mark.parametrize("seed", range(3))
def test_a_profile_replaces_the_times_of_its_ops_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, _ = import_named("zoo:bert-tiny", {}, {})
    box = load_box("box-2gpu")
    plain = box.step_problem(model)
    named = [name for name, kind in zip(plain.names, plain.op_types, strict=True) if kind != INPUT]
    times = {
        kind: {name: float(rng.exponential(1e-5)) for name in named if rng.random() < 0.5}
        for kind in ("haswell", "k40")
    }
    wanted = plain.time_s.copy()
    for k, kind in enumerate(box.box.kinds):
        for n, name in enumerate(plain.names):
            wanted[n, k] = times[kind].get(name, wanted[n, k])
    measured = with_profiles(box, times, model.graph).step_problem(model)
    assert np.array_equal(measured.time_s, wanted)
    assert np.array_equal(measured.allowed, plain.allowed)


def test_kinds_have_tables_of_their_own() -> None:
    times = {"haswell": {"op_c": 3.0}, "k40": {"op_c": 4.0, "op_d": 1e-300}}
    step = _step(times)
    assert step.time_s[step.names.index("op_c")].tolist() == [3.0, 4.0]
    assert step.time_s[step.names.index("op_d"), 1] == 1e-300


@pytest.mark.parametrize("seconds", [0.1 + 0.2, 1e-9, 5e-324, 1e9, 2**-40, 1.0, 0])
def test_times_pass_through_the_table_to_the_bit(seconds: float) -> None:
    table = read_times(table_of({"a": seconds}), "t.csv", "")
    assert table.nodes["a"].seconds == seconds


def test_names_of_all_kinds_pass_through_the_table() -> None:
    names = ["a,b", '"quoted"', "line\nbreak", "carriage\rreturn", " blank ", "größe/Add", "'", "#"]
    table = read_times(table_of(dict.fromkeys(names, 1.0)), "t.csv", "")
    assert sorted(table.nodes) == sorted(names)


def test_rows_are_sorted_so_that_equal_times_give_equal_bytes() -> None:
    assert table_of({"b": 2, "a": 0.5}) == b"node,seconds\na,0.5\nb,2.0\n"
    assert table_of({"a": 0.5, "b": 2}) == table_of({"b": 2, "a": 0.5})


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan, 2e9])
def test_what_is_no_time_is_told_with_its_kind_and_op(seconds: float) -> None:
    with pytest.raises(CompileError) as caught:
        _step({"k40": {"op_c": seconds}})
    found = _only(caught)
    assert (found.code, found.at) == ("MCM-C005", "times.k40.csv:2")
    assert "'op_c'" in found.message


def test_a_name_that_is_no_text_is_told() -> None:
    model = imported_model()
    model.graph[0].name = "\ud800"
    with pytest.raises(CompileError) as caught:
        with_profiles(load_box("box-2gpu"), {"k40": {"\ud800": 1.0}}, model.graph)
    assert _only(caught).code == "MCM-C005"


def test_a_profile_of_another_model_is_refused() -> None:
    for seconds in ({"x": 1.0}, {}):
        with pytest.raises(CompileError) as caught:
            _step({"k40": seconds})
        assert _only(caught).code == "MCM-D078"
        assert _only(caught).at == "option --profile 'k40'"


def test_a_table_that_could_not_be_read_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_files, "MAX_COST_FILE_BYTES", 20)
    with pytest.raises(CompileError) as caught:
        _step({"k40": {"op_c": 1.0, "op_d": 2.0}})
    assert _only(caught).code == "MCM-C004"
    assert "more than 20" in _only(caught).message


def test_unknown_kinds_and_contradictions_are_told_before_the_model_is_read() -> None:
    with pytest.raises(CompileError) as caught:
        refuse_contradictions(
            load_box("box-2gpu"), {"k80": {}, "k40": {}, "haswell": {}}, {"k40": "cycles"}
        )
    unknown, twice = caught.value.diagnostics
    assert (unknown.code, unknown.at) == ("MCM-D070", "option --profile 'k80'")
    assert "'haswell', 'k40'" in (unknown.hint or "")
    assert (twice.code, twice.at) == ("MCM-U002", "option --profile 'k40'")
    assert "'cycles'" in twice.message
    asked = PlaceOptions(times={"k40": {"op_c": 1.0}}, cost_models={"k40": "cycles"})
    with pytest.raises(CompileError) as caught:
        place_model("there/is/no.onnx", "box-2gpu", asked)
    assert _only(caught).code == "MCM-U002"
