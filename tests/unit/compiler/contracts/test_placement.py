"""Costs of placement problems that are asked by name: what fails is named."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.placement import (
    Placement,
    PlacementProblem,
    PlacementRequest,
    placement_by,
    placement_cost,
)
from mcm_compiler.contracts.requests import PlacementOptions
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.placement_file import read_placement
from mcm_compiler.registry import PLACEMENT_COSTS
from tests.generators.placement_examples import PUBLISHED


class Odd:
    """Answers what it is told to."""

    name = "another name than it is registered by"
    summary = "anything"
    objective: Any = "period"
    answer: Callable[[PlacementProblem], Any]

    def place(self, request: PlacementRequest) -> Any:
        return type(self).answer(request.problem)


@pytest.fixture(autouse=True)
def odd() -> Generator[None]:
    PLACEMENT_COSTS.add("test_odd", Odd, "odd.py")
    yield
    PLACEMENT_COSTS.remove("test_odd")


def _answered(answer: Callable[[PlacementProblem], Any]) -> Placement:
    Odd.answer = staticmethod(answer)
    problem = read_placement(Path(PUBLISHED / "layer_gnmt.json"))
    request = PlacementRequest(problem=problem)
    return placement_by("test_odd", placement_cost("test_odd"), request)


def _fine(problem: PlacementProblem) -> Placement:
    devices = problem.max_accelerators + problem.max_cpus
    return Placement(
        np.zeros(len(problem.ids), np.int64),
        "m",
        0,
        device_load=np.zeros(devices),
        period=np.float64(2),
        lower_bound=1,
        argument="a",
    )


def _fail(problem: PlacementProblem) -> Placement:
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (_fail, "KeyError: 'lost'"),
        (lambda p: {"period": 1.0}, "it gave a dict, not a Placement"),
        (lambda p: replace(_fine(p), found=np.zeros(3, np.int32)), "device_of has the shape"),
        (lambda p: replace(_fine(p), found=_fine(p).device_of - 1), "names a device"),
        (lambda p: replace(_fine(p), found=_fine(p).device_of + 0.5), "holds float64"),
        (lambda p: replace(_fine(p), device_load=np.zeros(1)), "device_load is not one number"),
        (lambda p: replace(_fine(p), period=float("nan")), "period is nan"),
        (lambda p: replace(_fine(p), lower_bound=3.0), "nothing is below 3.0, and found 2.0"),
        (lambda p: replace(_fine(p), price=float("inf")), "price is inf"),
        (lambda p: replace(_fine(p), evaluations=-1), "evaluations is -1, less than none"),
        (lambda p: replace(_fine(p), method=None), "method is a NoneType, no text"),
    ],
)
def test_what_is_no_placement_is_told_with_who_gave_it(
    answer: Callable[[PlacementProblem], Any], told: str
) -> None:
    with pytest.raises(CompileError) as caught:
        _answered(answer)
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "odd.py")
    assert found.message.startswith("placement cost 'test_odd' failed: ")
    assert told in found.message


def test_a_placement_in_another_form_is_put_right() -> None:
    found = _answered(_fine)
    assert found.device_of.dtype == np.int32
    assert (type(found.period), type(found.lower_bound)) == (float, float)


def test_a_cost_that_makes_something_else_small_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Odd, "objective", 5)
    with pytest.raises(CompileError) as caught:
        placement_cost("test_odd")
    (found,) = caught.value.diagnostics
    assert (found.code, found.at) == ("MCM-X007", "odd.py")


def test_the_level_says_what_a_search_may_spend() -> None:
    problem = read_placement(Path(PUBLISHED / "layer_gnmt.json"))
    for number in (0, 2, 3):
        level = load_level(number)
        request = PlacementRequest.of(problem, PlacementOptions(level=number, budget_s=3.0, seed=4))
        assert request.evaluations == level.evaluations(problem.num_operators)
        assert (request.budget_s, request.seed) == (3.0, 4)
        budget = request.budget
        assert (budget.evaluations, budget.seconds) == (request.evaluations, 3.0)
        assert (budget.effort_s, budget.gap) == (level.effort_s, level.gap)
    assert PlacementRequest.of(problem, PlacementOptions(evaluations=7)).evaluations == 7
