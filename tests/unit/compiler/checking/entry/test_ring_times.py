"""Numbers of a ring from times of its processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcm_compiler.checking.entry.ring_times import chip_table, ring_data, ring_lines
from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram
from mcm_compiler.execution.ring.plan import RingChip, RingPlan, RingResult

# Seconds of a process in a round of each block, by replica, chip and block.
PACE = np.array([[[2.0, 3.0], [4.0, 4.4]], [[1.0, 1.0], [2.0, 2.0]]])


def plan(cores: int) -> RingPlan:
    chips = (RingChip(0, Path()), RingChip(3, Path()))
    places = tuple(range(cores))
    return RingPlan(chips, (), ({},), places, 2, 8, warm=5, block=10, blocks=2)


def result() -> RingResult:
    rounds = np.repeat(PACE, 10, axis=-1)
    rounds = np.concatenate([np.full((2, 2, 5), 7.0), rounds], axis=-1)
    left_s = np.cumsum(np.full((2, 25), 5.0), axis=-1)
    return RingResult(({},), np.cumsum(rounds, axis=-1), rounds / 2, left_s, 0)


def program(*seconds: float) -> LoweredProgram:
    chips = tuple(
        ChipProgram(chip, (Kernel("a", (), one / 4, (), ()), Kernel("b", (), one * 3 / 4, (), ())),
                    (), 0, 0)
        for chip, one in zip((0, 3), seconds, strict=True)
    )  # fmt: skip
    return LoweredProgram("mcm4", chips, ())


def measured(cores: int = 4, of: LoweredProgram | None = None) -> dict[str, Any]:
    return ring_data(plan(cores), result(), of, classes=3) | {
        "target": "mcm4", "outputs_equal": True, "max_abs_error": 0.0,
        "random_inputs": 2, "scheduler": None,
    }  # fmt: skip


def test_the_period_is_that_of_the_busiest_chips_of_all_pipelines():
    data = measured(of=program(1.0, 2.0))
    # Three inferences in 4 s of one pipeline and in 2 s of the other, in the faster block.
    assert data["period_cpu_s"] == pytest.approx(1 / (3 / 4 + 3 / 2))
    assert data["repeat_error"] == pytest.approx((3 / 4 + 3 / 2) / (3 / 4.4 + 3 / 2) - 1)
    assert data["period_wall_s"] == pytest.approx(5 / 6)
    assert data["predicted_period_s"] == pytest.approx(2 / 6)
    assert data["inferences"] == 2 * 10 * 2 * 3


def test_chips_deviate_from_their_common_level():
    rows = measured(of=program(1.0, 2.0))["chips"]
    assert [row["chip"] for row in rows] == [0, 3, 8, 11]
    assert [row["core"] for row in rows] == [0, 1, 2, 3]
    assert [row["busy_s"] for row in rows] == pytest.approx([1.0, 2.0, 0.5, 1.0])
    assert [row["overhead_s"] for row in rows] == pytest.approx([1.0, 2.0, 0.5, 1.0])
    # All together take 9 s where 6 s are predicted.
    assert [row["deviation"] for row in rows] == pytest.approx([1 / 3, 1 / 3, -1 / 3, -1 / 3])
    assert [row["repeat_error"] for row in rows] == pytest.approx([0.5, 0.1, 0.0, 0.0])


def test_without_cores_or_predictions_there_are_no_such_numbers():
    data = measured(3)
    assert data["period_wall_s"] is None
    assert data["predicted_period_s"] is None
    texts = dict(ring_lines(data))
    assert texts["period"].endswith("elapsed not measured")
    assert texts["predicted"] == "nothing"
    assert texts["inputs"] == "2 random ones"
    head, *rows = chip_table(data["chips"])
    assert all(len(row) == len(head) for row in rows)
    assert rows[0][-2:] == ("-", "-")


def test_disturbed_rounds_do_not_count_and_all_inputs_do():
    rounds = np.full((1, 2, 45), 1.0)
    # Rounds of the second input take three times as long, and half of all rounds are disturbed.
    rounds[..., 1::2] = 3.0
    rounds[..., np.arange(45) % 10 < 5] += 5.0
    chips = (RingChip(0, Path()), RingChip(1, Path()))
    run = RingPlan(chips, (), ({}, {}), (0, 1), warm=5, block=20, blocks=2)
    left_s = np.cumsum(rounds[:, 0], axis=-1)
    found = RingResult(({}, {}), np.cumsum(rounds, axis=-1), rounds, left_s, 0)
    data = ring_data(run, found, None, classes=1)
    assert data["period_cpu_s"] == pytest.approx(2.0)
    assert data["repeat_error"] == pytest.approx(0.0)
