"""Schedules of the published constants."""

from __future__ import annotations

import pytest
from hier_planner.planner_settings import PUBLISHED, PlannerSettings, default_groups


@pytest.mark.parametrize(("update", "rate"), [(0, 0.1), (449, 0.1), (450, 0.095), (500, 0.09025)])
def test_rate_falls_after_400_updates(update: int, rate: float):
    assert PUBLISHED.rate_at(update) == pytest.approx(rate)


def test_noise_ends():
    assert (PUBLISHED.noise_at(750), PUBLISHED.noise_at(751)) == (0.5, 0.0)


@pytest.mark.parametrize(("devices", "groups"), [(3, 60), (5, 100), (9, 180), (20, 256)])
def test_groups_by_devices(devices: int, groups: int):
    assert default_groups(devices) == groups


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="samples"):
        PlannerSettings(samples=0)
