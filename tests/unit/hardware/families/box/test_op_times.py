"""Times of ops on kinds of devices, and measured ones instead."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.components.target_loading import load_box
from mcm_hardware.families.box.op_times import with_op_times
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
