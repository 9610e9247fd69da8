"""Bounds of steps that are found by their entry points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.contracts.boxes import bounds
from mcm_compiler.contracts.boxes.bounds import StepBound, bound_step, refuse_refuted
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.plugin_kinds import KINDS
from mcm_compiler.registry import Registry
from tests.generators.step_problems import random_box, random_step


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[object]:
    empty: Registry[object] = Registry(replace(KINDS["step-bound"], name="no-bounds"))
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


def _fail(problem: StepProblem, box: Box) -> StepBound:
    raise RuntimeError("lost")


@pytest.mark.parametrize(
    "bound",
    [_fail, lambda p, b: 5.0, _given(float("nan")), _given(float("inf")), _given(-1.0), 5],
    ids=["fails", "number", "nan", "inf", "negative", "no function"],
)
def test_what_gives_no_bound_is_named(registry: Registry[object], bound: object) -> None:
    rng = np.random.default_rng(0)
    box = random_box(rng)
    problem = random_step(rng, box)
    registry.add("odd", bound, "odd.py")
    with pytest.raises(CompileError) as caught:
        bound_step(problem, box)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "odd.py")
    assert "bound of steps 'odd' failed" in found.message


def test_a_bound_that_a_placement_is_below_is_named(registry: Registry[object]) -> None:
    rng = np.random.default_rng(0)
    box = random_box(rng)
    problem = random_step(rng, box)
    for name, seconds in (("low", 1.0), ("high", 3.0)):
        registry.add(name, _given(seconds), f"{name}.py")
    best = bound_step(problem, box)
    refuse_refuted(problem, box, best, 3.0)
    with pytest.raises(CompileError) as caught:
        refuse_refuted(problem, box, best, 2.0)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "high.py")
    assert "no step is faster than 3 s, and one takes 2 s" in found.message
