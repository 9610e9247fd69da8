"""Measured times of ops: profiles of onnxruntime, and what becomes of a step with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from mcm_compiler.api import place_model
from mcm_compiler.components.target_loading import load_box
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.folder_check import check_placement_folder
from mcm_compiler.placed.measured_times import (
    profiled_seconds,
    with_measured_times,
    with_op_times,
)
from mcm_compiler.placed.place_options import PlaceOptions
from tests.generators.step_recurrent import recurrent_step


def test_measured_times_hold_on_their_kind_alone() -> None:
    box = load_box("box-2gpu").box
    step = recurrent_step(box, layers=1, steps=2)
    measured = with_op_times(step, box, "k40", {"op5": 7.0, "unknown": 1.0})
    assert measured.time_s[5].tolist() == [step.time_s[5, 0], 7.0]
    others = np.arange(step.num_ops) != 5
    assert np.array_equal(measured.time_s[others], step.time_s[others])


def test_what_a_kind_cannot_run_was_not_measured_there() -> None:
    box = load_box("box-2gpu").box
    step = recurrent_step(box, layers=1, steps=2)
    step.time_s.setflags(write=True)
    step.time_s[5, 1] = np.inf
    assert np.isinf(with_op_times(step, box, "k40", {"op5": 7.0}).time_s[5, 1])


def test_faults_of_measured_times() -> None:
    box = load_box("box-2gpu").box
    step = recurrent_step(box, layers=1, steps=2)
    with pytest.raises(ValueError, match="haswell, k40"):
        with_op_times(step, box, "k80", {})
    for wrong in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="op5"):
            with_op_times(step, box, "k40", {"op5": wrong})


def _event(name: str, took: Any) -> dict[str, Any]:
    return {"cat": "Node", "name": name, "dur": took, "args": {"provider": "CPU"}}


def _profile(path: Path, *events: Any) -> Path:
    path.write_text(json.dumps([{"cat": "Session", "name": "model_run", "dur": 9}, *events]))
    return path


def test_the_median_of_all_runs_of_all_files_counts(tmp_path: Path) -> None:
    one = _profile(
        tmp_path / "1.json",
        *(_event("a_kernel_time", took) for took in (900, 3, 5)),
        _event("b_kernel_time", 2),
        _event("b_fence_before", 7),
    )
    other = _profile(tmp_path / "2.json", *(_event("a_kernel_time", took) for took in (4, 4)))
    assert profiled_seconds([one, other]) == {"a": pytest.approx(4e-6), "b": pytest.approx(2e-6)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "not JSON"),
        ("{}", "no list"),
        ("[]", "no event"),
        (json.dumps([_event("a_kernel_time", -1)]), "event 0"),
        (json.dumps([_event("a_kernel_time", True)]), "event 0"),
        (json.dumps([_event("a_kernel_time", 1e300)]), "event 0"),
        (json.dumps([_event("a_kernel_time", None)]), "event 0"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        profiled_seconds([path])
    assert caught.value.diagnostics[0].code == "MCM-D077"
    assert why in caught.value.diagnostics[0].message


def test_profiles_of_other_models_and_kinds_are_refused() -> None:
    box = load_box("box-2gpu").box
    step = recurrent_step(box, layers=1, steps=2)
    for times, code in (({"k80": {"op5": 1.0}}, "MCM-D070"), ({"k40": {"x": 1.0}}, "MCM-D078")):
        with pytest.raises(CompileError) as caught:
            with_measured_times(step, box, times)
        assert caught.value.diagnostics[0].code == code


def test_a_profile_of_onnxruntime_sets_the_time_of_the_step(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    ir.save(
        ir.from_onnx_text(
            """<ir_version: 8, opset_import: ["": 17]> g (float[64,64] x) => (float[64,64] y)
            { [one] a = MatMul(x, x) [two] b = Relu(a) [three] y = MatMul(b, x) }"""
        ),
        model,
    )
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "run")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {"x": np.ones((64, 64), np.float32)})
    seconds = profiled_seconds([Path(session.end_profiling())])
    assert seconds.keys() == {"one", "two", "three"}

    asked = PlaceOptions(placer="cpu", times={"haswell": seconds})
    placed = place_model(model, "box-cpu-gpu", asked, output=tmp_path / "out")
    assert placed.results.seconds[0] == pytest.approx(sum(seconds.values()))
    assert "3 ops have times" in next(d for d in placed.diagnostics if d.code == "MCM-D079").message
    report = check_placement_folder(tmp_path / "out")
    assert report.holds, report.diagnostics
