"""The pre-trained placer keeps to the rules and its evaluations, and has a control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.boxes.box import StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions
from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_hardware.families.box.step_simulator import StepSimulator
from mcm_passes.families.box.learning.pretrained import Pretrained


def placed(case, placer: Pretrained, **asked: Any):
    return placer.place(
        PlacerRequest(case.problem, case.box, case.evaluator, evaluations=4000, **asked)
    )


@pytest.mark.parametrize("policy", ["", "none"])
@pytest.mark.parametrize("evaluations", [1, 30])
@pytest.mark.parametrize("coarse", [0, 300])
def test_places_within_its_evaluations(case, policy: str, evaluations: int, coarse: int):
    asked: list[StepConditions] = []

    def simulate(problem: StepProblem, conditions: StepConditions) -> StepSimulator:
        asked.append(conditions)
        return StepSimulator(problem, case.box, conditions)

    placer = Pretrained(policy=policy, evaluations=evaluations, coarse=coarse)
    request: dict[str, Any] = {"seed": 3, "simulate": simulate, "order": "critical_path"}
    one, same = (placed(case, placer, **request) for _ in range(2))
    # On a coarse step there may be nothing more to propose.
    assert one.evaluations <= evaluations if coarse else one.evaluations == evaluations
    assert one.history == same.history
    score = case.evaluator.evaluate(one.device_of[None]).score[0]
    assert score == one.history[-1][1]
    figures = dict(one.figures)
    assert ("coarse evaluations" in figures) == bool(coarse)
    assert figures.get("coarse evaluations", 0) <= coarse
    assert [conditions.order for conditions in asked] == ["critical_path"] * (2 * bool(coarse))


def test_without_other_evaluators_the_best_of_what_the_policy_says_is_the_answer(case):
    request: dict[str, Any] = {"seed": 3}
    with_coarse, without = (placed(case, Pretrained(coarse=one), **request) for one in (300, 0))
    assert with_coarse.history == without.history
    assert with_coarse.figures == without.figures


def test_a_good_start_is_not_lost(case):
    def simulate(problem: StepProblem, conditions: StepConditions) -> Any:
        return StepSimulator(problem, case.box, conditions)

    request: dict[str, Any] = {"seed": 3, "simulate": simulate}
    best = placed(case, Pretrained(evaluations=200), **request)
    again: dict[str, Any] = {"seed": 4, "simulate": simulate, "start": best.device_of}
    found = placed(case, Pretrained(policy="none", evaluations=1, coarse=50), **again)
    assert np.array_equal(found.device_of, best.device_of)
