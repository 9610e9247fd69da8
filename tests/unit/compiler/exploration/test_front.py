"""The Pareto front, against comparing every pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcm_compiler.exploration.explore import known_measures, on_front


def _point(throughput: float, latency: float, chips: int, sram: int, **more: Any) -> dict[str, Any]:
    return {
        "throughput_per_s": throughput,
        "latency_s": latency,
        "chips": chips,
        "sram_bytes": sram,
        "faults": [],
        **more,
    }


_FAILED = {"throughput_per_s": None, "latency_s": None, "chips": None, "sram_bytes": None,
           "faults": [{"code": "MCM-P015"}]}  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_front_is_that_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 8, (600, 4)).tolist()
    points = [_point(*row) for row in rows]

    def beats(a: list[int], b: list[int]) -> bool:
        as_good = a[0] >= b[0] and all(x <= y for x, y in zip(a[1:], b[1:], strict=True))
        return as_good and a != b

    expected = [not any(beats(other, row) for other in rows) for row in rows]
    assert on_front(points, ("throughput", "latency", "chips", "sram")) == expected
    assert any(expected)
    assert not all(expected)


def test_points_without_figures_are_on_no_front_and_hide_no_measure() -> None:
    points = [_FAILED, _point(2.0, 1.0, 4, 8, energy_j=0.5), _point(1.0, 1.0, 4, 8, energy_j=0.4)]
    known = known_measures(points)
    assert known == ("throughput", "latency", "chips", "sram", "energy")
    assert on_front(points, known) == [False, True, True]
    assert on_front(points, known[:4]) == [False, True, False]
    assert on_front([_FAILED], ()) == [False]


def test_a_measure_that_one_point_lacks_is_not_known() -> None:
    points = [_point(2.0, 1.0, 4, 8, energy_j=0.5), _point(1.0, 1.0, 4, 8)]
    assert "energy" not in known_measures(points)
