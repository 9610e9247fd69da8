"""Benchmarks of placements: what is put together, what counts as equal, what is lost."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "tools" / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module


def _segment(device: str, inputs: list[str], outputs: list[str]) -> dict[str, Any]:
    return {"device": device, "inputs": inputs, "outputs": outputs}


FORKED = [
    _segment("core:0", ["x"], ["a"]),
    _segment("core:1", ["a"], ["b"]),
    _segment("core:0", ["a"], ["c"]),
    _segment("core:0", ["b", "c"], ["y"]),
]


def test_a_step_is_put_together_from_its_segments(bench: Any) -> None:
    put_together = bench("prediction_cases.segment_runs").put_together
    # a ends at 1, b at 1 + 3 on the other core, c at 3, y at 4 + 1.
    assert put_together(FORKED, [1.0, 3.0, 2.0, 1.0], 0.0) == 5.0
    # From core to core and back.
    assert put_together(FORKED, [1.0, 3.0, 2.0, 1.0], 0.25) == 5.5
    # c ends last, on the same core as y: b's way back costs nothing.
    assert put_together(FORKED, [1.0, 1.0, 4.0, 1.0], 0.25) == 6.0
    assert put_together([], [], 0.25) == 0.0


def test_placements_that_differ_by_names_of_devices_are_alike(bench: Any) -> None:
    likeness = bench("prediction_cases.drawn_runs").likeness
    other = {"core:0": "core:1", "core:1": "core:0"}
    turned = [{**segment, "device": other[segment["device"]]} for segment in FORKED]
    moved = [{**FORKED[0], "device": "core:1"}, *FORKED[1:]]
    one = likeness({"segments": FORKED})
    assert one == likeness({"segments": turned})
    assert one != likeness({"segments": moved})


class _Runs:
    """Says how long a step takes on one thread."""

    def __init__(self, segments: int, seconds: float) -> None:
        self.segments, self.seconds = [None] * segments, seconds

    def in_turn(self) -> float:
        return self.seconds


def test_a_dispatch_is_what_one_more_segment_costs(bench: Any) -> None:
    dispatch_seconds = bench("prediction_cases.core_calibration").dispatch_seconds
    assert dispatch_seconds(_Runs(1, 2.0), _Runs(5, 2.4)) == pytest.approx(0.1)
    assert dispatch_seconds(_Runs(1, 2.0), _Runs(5, 1.9)) == 0.0
    with pytest.raises(ValueError, match="5 segments are not more than 5"):
        dispatch_seconds(_Runs(5, 2.0), _Runs(5, 2.4))


def _row(graph: str, placer: str, ratio: float, urgent: float) -> dict[str, Any]:
    row = {"graph": graph, "placer": placer, "seed": 0, "ratio": ratio, "critical_path": urgent}
    return {**row, "cpu_s": 1.0, "fits": True}


def test_what_is_lost_in_the_other_order_is_held_against_bars(bench: Any) -> None:
    placers = bench("placers")
    rows = [
        _row("rnnlm", "portfolio", 0.8, 0.81),
        _row("nmt-2", "portfolio", 0.8, 0.88),
        _row("nmt-2", "portfolio", 0.8, 0.86),
        _row("nmt-2", "metis", 1.0, 2.0),
    ]
    assert placers.lost_by_graph(rows) == pytest.approx({"rnnlm": 0.01, "nmt-2": 0.07})
    bars = {bar.name: bar for bar in placers.bars_of(rows)}
    assert bars["lost_mean"].value == pytest.approx(0.04)
    assert bars["lost_worst"].value == pytest.approx(0.07)
    assert not bars["lost_mean"].holds
    assert [text for text in placers.missed(rows) if "lost" in text] == [
        "nmt-2: 7.0 points lost under critical-path order"
    ]
