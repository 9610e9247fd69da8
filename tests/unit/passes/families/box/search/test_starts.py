"""Tests for the placements that searches start from."""

import numpy as np

from mcm_passes.families.box.search.units import device_speeds


def test_devices_are_as_fast_where_nothing_takes_time() -> None:
    kinds = np.array([0, 1, 1], np.int32)
    assert device_speeds(np.zeros(2), np.zeros((2, 2)), kinds).tolist() == [1.0, 1.0, 1.0]
    assert device_speeds(np.zeros(0), np.zeros((0, 2)), kinds).tolist() == [1.0, 1.0, 1.0]


def test_speeds_are_shares_of_the_fastest() -> None:
    times = np.array([[4.0, 1.0], [4.0, 1.0]])
    assert device_speeds(times.min(axis=1), times, np.array([0, 1])).tolist() == [0.25, 1.0]
