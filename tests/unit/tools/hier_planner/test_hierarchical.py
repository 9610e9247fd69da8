"""The published planner on a small step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hier_planner.placers import Hierarchical
from hier_planner.planning import PlannerError

from mcm_compiler.contracts.boxes.placers import PlacerRequest

SMALL = {"groups": 3, "hidden": 4, "samples": 2}


def asked(case, evaluator, evaluations: int, **limits) -> PlacerRequest:
    return PlacerRequest(case.problem, case.box, evaluator, evaluations=evaluations, **limits)


def test_same_seed_same_answer(case, counted):
    """And the answer is what was simulated best, with figures of what was learned."""
    placer = Hierarchical(**SMALL)
    evaluator = counted(np.array([3.0, 2.0, 1.0]))
    answers = [placer.place(asked(case, evaluator, 16, seed=seed)) for seed in (1, 1, 2)]
    one, same, other = answers
    assert one.history == same.history
    assert one.figures == same.figures
    assert (one.device_of == same.device_of).all()
    assert one.figures != other.figures
    assert one.evaluations == 16
    scores = counted(np.array([3.0, 2.0, 1.0])).evaluate(one.device_of[None]).score
    assert scores[0] == one.history[-1][1]
    case.evaluator.evaluate(one.device_of[None])
    figures = dict(one.figures)
    assert figures["updates"] == 8
    assert 1 <= figures["used groups"] <= 3
    assert 0 <= figures["entropy of an op's group"] <= math.log(3)
    assert figures["entropy of a group's device"] <= math.log(3) + 1e-6
    assert figures["mean score of the last updates"] >= one.history[-1][1]


def test_nothing_fits(case, counted):
    evaluator = counted(np.array([3.0, 2.0, 1.0]), overflow=0.5)
    with pytest.raises(PlannerError, match="fits the memory"):
        Hierarchical(**SMALL).place(asked(case, evaluator, 8))


@pytest.mark.parametrize("hidden", [0, 3, 4098])
def test_widths_that_the_network_cannot_have_are_refused_as_an_option(hidden):
    with pytest.raises(ValueError, match=f"hidden is {hidden}, not an even number from 2 to 4096"):
        Hierarchical(hidden=hidden)


def test_a_budget_that_is_over_before_it_begins_still_places(case, counted):
    evaluator = counted(np.array([3.0, 2.0, 1.0]))
    answer = Hierarchical(**SMALL).place(asked(case, evaluator, 8, budget_s=0.0))
    assert answer.evaluations == 2
    case.evaluator.evaluate(answer.device_of[None])


def test_more_groups_than_ops(case):
    with pytest.raises(PlannerError, match="500 groups") as caught:
        Hierarchical(groups=500).place(asked(case, case.evaluator, 8))
    assert "500 groups" in str(caught.value)


def test_divergence_is_told(case, counted):
    placer = Hierarchical(**SMALL, learning_rate=1e38)
    evaluator = counted(np.array([3.0, 2.0, 1.0]))
    with pytest.raises(PlannerError, match="diverges"):
        placer.place(asked(case, evaluator, 40))
