"""The verdict of a placed step."""

from __future__ import annotations

import pytest

from mcm_compiler.placed.placed_model import SegmentTimes
from mcm_compiler.placed.placement_report import basis_of, placed_lines
from mcm_compiler.placed.records import (
    Asked,
    DeviceFigures,
    PlacedSource,
    PlacementRecord,
    Search,
    StepFigures,
)
from mcm_compiler.text.headline import line_text


def record(gap: float | None = 0.25, pins=(), peak=10, costs=None) -> PlacementRecord:
    return PlacementRecord(
        "1",
        PlacedSource("m.onnx", "ab"),
        "box",
        Asked(pins=pins),
        Search("single", "one", 1, 0),
        StepFigures(1e-3, 8e-4, "a chain of ops", gap, 8e-4, 8e-4),
        (
            DeviceFigures("cpu:0", "cpu", 3, 2e-4, 0.0, peak, 1 << 20),
            DeviceFigures("gpu:0", "gpu", 5, 8e-4, 0.0, 1 << 19, 1 << 20),
            DeviceFigures("gpu:1", "gpu", 0, 0.0, 0.0, 0, 1 << 20),
        ),
        {"a": "cpu:0"},
        costs or {},
    )


def texts(of: PlacementRecord, segments: SegmentTimes | None = None) -> dict[str, str]:
    return {line["label"]: line_text(line) for line in placed_lines(of, segments)}


def test_the_time_of_what_is_delivered_comes_first():
    assert texts(record())["step time"] == "1.00 ms; 1,000 steps/s; one step, idle devices"
    found = texts(record(), SegmentTimes(2, 5e-5, 2e-3))["step time"]
    assert found.startswith(
        "2.00 ms; 500 steps/s; as 2 segments, 50.0 us to start each; 1.00 ms if"
    )


def test_the_optimum_is_that_of_the_step_op_by_op_and_of_the_constraints():
    found = texts(record())["optimality"]
    assert found == (
        "at most 25.0 % above the optimal step time "
        "(proven under the step simulator); among placements of "
        "whole ops on these devices, each op started by itself"
    )
    assert "with the given constraints" in texts(record(pins=(("a", "cpu:0"),)))["optimality"]
    assert texts(record(None))["optimality"] == "unknown; no bound is proven"


@pytest.mark.parametrize(
    ("peak", "words"),
    [
        (10, "2 of 3 devices; fullest is gpu:0: 512.0 KiB"),
        (1 << 21, "does NOT fit 2 of 3 devices; fullest"),
    ],
)
def test_memory_and_bottleneck(peak, words):
    found = texts(record(peak=peak))
    assert found["fits"].startswith(words)
    assert found["limited by"].startswith("gpu:0 80.0 % busy; 5 ops")


def test_given_times_change_the_basis():
    assert basis_of(record()) == "simulated, no hardware measured"
    assert basis_of(record(costs={"gpu": "table"})) == "simulated; given times for gpu"
