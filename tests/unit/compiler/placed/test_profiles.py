"""Profiles of onnxruntime, and what becomes of a step with their times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.folder_check import check_placement_folder
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placing import place_model
from mcm_compiler.placed.profiles import profiled_seconds


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

    table = tmp_path / "out" / "cost_model.haswell.file.csv"
    assert table.read_text().splitlines()[1:] == [
        f"{name},{seconds[name]!r}" for name in sorted(seconds)
    ]
    asked = PlaceOptions(placer="cpu", cost_models={"haswell": f"table{{file={table}}}"})
    again = place_model(model, "box-cpu-gpu", asked)
    assert again.results.seconds[0] == placed.results.seconds[0]
    assert again.target.source_text == placed.target.source_text
