"""Choices are credited with what their devices have to do."""

from __future__ import annotations

import numpy as np
from hier_planner.planning import local_credit

from mcm_compiler.contracts.boxes.evaluation import StepResults
from mcm_passes.families.box.learning.cases import standardised


def test_the_less_loaded_device_is_better():
    busy = np.array([[5.0, 1.0], [1.0, 5.0]])
    nothing = np.zeros((2, 2))
    results = StepResults(np.ones(2), nothing.astype(np.int64), busy, nothing, np.zeros(2))
    devices = np.array([[0, 1], [0, 0]], np.int32)
    credit = local_credit(devices, results)
    np.testing.assert_allclose(credit.mean(axis=0), 0, atol=1e-6)
    assert credit[0, 0] < credit[1, 0]
    assert abs(credit[0, 1] - credit[1, 1]) < 1e-6


def test_equal_values_say_nothing():
    assert not standardised(np.full(4, 0.1)).any()
    np.testing.assert_allclose(standardised(np.array([1.0, 3.0])), [-1, 1])
