"""Bounds of steps that are found by their entry points."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.boxes import bounds
from mcm_compiler.contracts.boxes.bounds import StepBound, bound_step
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.registry import Registry
from tests.generators.step_problems import random_box, random_step


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[object]:
    empty: Registry[object] = Registry("mcm_compiler.no_bounds", "bound of steps")
    monkeypatch.setattr(bounds, "STEP_BOUNDS", empty)
    return empty


def _given(seconds: float):
    def bound(_problem: StepProblem, _box: Box) -> StepBound:
        return StepBound(seconds, f"it takes {seconds} s")

    return bound


def test_the_largest_bound_counts_and_none_is_zero(registry: Registry[object]) -> None:
    rng = np.random.default_rng(0)
    box = random_box(rng)
    problem = random_step(rng, box)
    assert bound_step(problem, box).seconds == 0.0
    for name, seconds in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        registry.add(name, _given(seconds), "a test")
    assert bound_step(problem, box) == StepBound(3.0, "it takes 3.0 s")
