"""The compiler's learner is that of the study with the settings that measured best."""

from __future__ import annotations

import numpy as np
import pytest
from deep_q_study import decision_learning

from mcm_passes.parallelism.decisions.decision_problem import count_objective
from mcm_passes.parallelism.deep_q import q_learning


def spied(patch, module):
    """The learners that a module makes from now on."""
    made = []

    class Spy(module.Learner):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    patch.setattr(module, "Learner", Spy)
    return made


@pytest.mark.parametrize(
    ("name", "recipe", "linkage", "counts"),
    [
        ("adp", q_learning.INPUTS, True, True),
        ("adp", q_learning.INPUTS, False, False),
        ("opp", q_learning.OPERATORS, True, False),
    ],
)
def test_weights_and_answers_are_bit_identical(
    decisions_of, objective_of, monkeypatch, name, recipe, linkage, counts
):
    problem = decisions_of(1, tensors=10)
    worth = count_objective(problem) if counts else objective_of(1)
    theirs, ours = (spied(monkeypatch, one) for one in (decision_learning, q_learning))
    expected = decision_learning.search_decision(
        problem, decision_learning.RECIPES[name], 5, worth, linkage=linkage
    )
    found = q_learning.search_decision(problem, recipe, 5, worth, linkage=linkage)
    assert np.array_equal(found, expected.partitioned)
    assert len(ours) == len(theirs) > 0
    for one, other in zip(ours, theirs, strict=True):
        assert one.best_value == other.best_score
        assert all(np.array_equal(part, other.weights[key]) for key, part in one.weights.items())
