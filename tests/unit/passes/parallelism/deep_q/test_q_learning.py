"""Learned decisions: never infeasible, the same for a seed, and better than the largest first."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcm_passes.parallelism.decisions.count_oracle import best_decision
from mcm_passes.parallelism.decisions.decision_problem import count_objective
from mcm_passes.parallelism.deep_q.q_learning import INPUTS, OPERATORS, search_decision

FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])

SHORT = INPUTS._replace(iterations=(36, 12), rounds=(3, 1))


def one_forced(problem):
    """The first class that can be partitioned."""
    forced = np.zeros(problem.num_classes, dtype=bool)
    forced[np.flatnonzero(~problem.blocked)[0]] = True
    return forced


@FEW
@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(1, 8),
    linkage=st.booleans(),
    masked=st.booleans(),
    counts=st.booleans(),
)
def test_answers_are_feasible(decisions_of, objective_of, seed, classes, linkage, masked, counts):
    problem = decisions_of(seed, classes=classes)
    worth = count_objective(problem) if counts else objective_of(seed, classes)
    found = search_decision(problem, SHORT._replace(masked=masked), seed, worth, linkage=linkage)
    assert problem.is_feasible(found)
    assert worth.value(found) <= best_decision(problem, worth).bound + 1e-9


@pytest.mark.parametrize("recipe", [INPUTS, OPERATORS._replace(rounds=(8, 2))])
def test_the_same_seed_gives_the_same_answer(decisions_of, recipe):
    problem = decisions_of(4, tensors=12)
    worth = count_objective(problem)
    first, again = (search_decision(problem, recipe, 3, worth) for _ in range(2))
    assert np.array_equal(first, again)
    assert worth.value(first) == best_decision(problem, worth).value


def test_learning_goes_beyond_largest_first(decisions_of):
    """A path of classes where taking the largest costs both neighbours, which are worth 4."""
    problem = decisions_of(0, tensors=1, classes=3, density=0.0, blocked=0.0)
    problem = dataclasses.replace(
        problem,
        tensors=tuple(f"w{v}" for v in range(7)),
        dim_ptr=np.arange(8, dtype=np.int32),
        dim_class=np.array([0, 0, 1, 1, 1, 2, 2], np.int32),
        conflicts=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.bool_),
        dim_bytes=np.ones(7, np.int64),
    )
    worth = count_objective(problem)
    assert worth.value(search_decision(problem, INPUTS, 0, worth)) == 4


def test_nothing_to_learn(decisions_of):
    problem = decisions_of(0, blocked=1.0)
    assert not search_decision(problem, OPERATORS, 0, count_objective(problem)).any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("linkage", [True, False])
def test_forced_classes_are_partitioned(decisions_of, objective_of, seed, linkage):
    problem, objective = decisions_of(seed), objective_of(seed)
    forced = one_forced(problem)
    for worth in (objective, count_objective(problem)):
        found = search_decision(problem, SHORT, seed, worth, forced=forced, linkage=linkage)
        assert problem.is_feasible(found)
        assert found[forced].all()
        most = best_decision(problem, worth, forced=forced).value
        assert worth.value(found) <= most + 1e-9
    with pytest.raises(ValueError, match="forced"):
        search_decision(problem, SHORT, seed, objective, forced=np.ones(8, bool))
