"""Learned decisions: never infeasible, the same for a seed, and better than the largest first."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from automap_decisions import largest_first, random_search
from deep_q_study.decision_environment import decision_items, gap
from deep_q_study.decision_learning import RECIPES, DecisionRecipe, search_decision
from deep_q_study.learner import PUBLISHED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcm_passes.parallelism.decisions.count_oracle import best_decision
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective, count_objective

FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def one_forced(problem):
    """The first class that can be partitioned."""
    forced = np.zeros(problem.num_classes, dtype=bool)
    forced[np.flatnonzero(~problem.blocked)[0]] = True
    return forced


SHORT = dataclasses.replace(RECIPES["adp"], iterations=48)


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
    objective = None if counts else objective_of(seed, classes)
    recipe = dataclasses.replace(SHORT, masked=masked)
    found = search_decision(problem, recipe, seed, objective, linkage=linkage)
    worth = objective or count_objective(problem)
    assert problem.is_feasible(found.partitioned)
    assert found.value == worth.value(found.partitioned)
    assert found.value <= best_decision(problem, worth).bound + 1e-9


@pytest.mark.parametrize("recipe", ["adp", "opp", "published-opp"])
def test_the_same_seed_gives_the_same_answer(decisions_of, recipe):
    problem = decisions_of(4, tensors=12)
    shorter = dataclasses.replace(RECIPES[recipe], iterations=160)
    first, again = (search_decision(problem, shorter, 3) for _ in range(2))
    assert np.array_equal(first.partitioned, again.partitioned)
    assert (first.value, first.first_hit) == (again.value, again.first_hit)
    assert 0 < first.first_hit <= first.episodes
    assert first.iterations >= 160
    if recipe != "published-opp":
        assert first.value == best_decision(problem, count_objective(problem)).value


def test_learning_goes_beyond_largest_first(decisions_of):
    """A path of classes where taking the largest costs both neighbours."""
    problem = decisions_of(0, tensors=1, classes=3, density=0.0, blocked=0.0)
    conflicts = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.bool_)
    dims = np.array([0, 0, 1, 1, 1, 2, 2], np.int32)
    problem = dataclasses.replace(
        problem,
        tensors=tuple(f"w{v}" for v in range(7)),
        dim_ptr=np.arange(8, dtype=np.int32),
        dim_class=dims,
        conflicts=conflicts,
        dim_bytes=np.ones(7, np.int64),
    )
    objective = count_objective(problem)
    greedy = largest_first(decision_items(problem, objective), np.zeros(3, bool))
    assert objective.value(greedy) == 3
    assert search_decision(problem, RECIPES["adp"], 0).value == 4
    assert best_decision(problem, objective).value == 4


def test_nothing_to_learn(decisions_of):
    problem = decisions_of(0, blocked=1.0)
    found = search_decision(problem, RECIPES["opp"], 0)
    assert (found.value, found.episodes) == (0.0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_controls_follow_the_rules(decisions_of, objective_of, seed):
    problem, objective = decisions_of(seed), objective_of(seed)
    for worth in (objective, count_objective(problem)):
        items = decision_items(problem, worth)
        for forced in (np.zeros(8, bool), one_forced(problem)):
            greedy = largest_first(items, forced)
            drawn, value = random_search(items, worth, forced, 300, np.random.default_rng(seed))
            assert value == pytest.approx(worth.value(drawn))
            assert value >= worth.value(forced)
            for decision in (greedy, drawn):
                assert problem.is_feasible(decision)
                assert decision[forced].all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("linkage", [True, False])
def test_forced_classes_are_partitioned(decisions_of, objective_of, seed, linkage):
    problem, objective = decisions_of(seed), objective_of(seed)
    forced = one_forced(problem)
    for worth in (objective, count_objective(problem)):
        found = search_decision(problem, SHORT, seed, worth, forced=forced, linkage=linkage)
        exact = best_decision(problem, worth, forced=forced)
        for decision in (found.partitioned, exact.partitioned):
            assert problem.is_feasible(decision)
            assert decision[forced].all()
        assert found.value <= exact.value + 1e-9
    clash = np.ones(8, bool)
    with pytest.raises(ValueError, match="forced"):
        search_decision(problem, SHORT, seed, forced=clash)


def test_items_are_groups_or_single_dims_the_largest_first(decisions_of):
    problem = decisions_of(2)
    objective = count_objective(problem)
    groups = decision_items(problem, objective, with_blocked=True)
    assert sorted(groups.item_class.tolist()) == list(range(8))
    assert (np.diff(groups.item_dims) <= 0).all()
    free = decision_items(problem, objective)
    assert not problem.blocked[free.item_class].any()
    dims = decision_items(problem, objective, linkage=False, with_blocked=True)
    known = problem.dim_class >= 0
    assert len(dims.item_class) == known.sum()
    assert (dims.item_dims == 1).all()
    largest = problem.dim_class[known][np.argmax(problem.dim_bytes[known])]
    assert dims.item_class[0] == largest


def test_rewards_are_those_of_the_paper_or_scaled(decisions_of):
    problem = decisions_of(2)
    items = decision_items(problem, count_objective(problem), with_blocked=True)
    partition, replicate, _ = items.rewards(published=True)
    np.testing.assert_allclose(partition, 0.4 * items.item_dims, rtol=1e-6)
    np.testing.assert_allclose(replicate, 0.1 * items.item_dims, rtol=1e-6)
    assert items.rewards(published=False)[0].max() == pytest.approx(1.0)
    saved = DecisionObjective(
        "cost", np.linspace(-4.0, 2.0, 8), np.zeros(0), np.zeros((0, 8), bool)
    )
    partition, replicate, per_term = decision_items(problem, saved).rewards(published=True)
    assert np.abs(partition).max() <= 1.0
    assert not replicate.any()
    assert per_term == 0.25


def test_gaps():
    assert gap(3.0, 4.0) == 0.25
    assert gap(0.1 + 0.2, 0.3) == 0.0
    assert gap(0.0, 0.0) == 0.0


def test_recipes_without_iterations_are_refused():
    with pytest.raises(ValueError, match="iterations"):
        DecisionRecipe(PUBLISHED["opp"], iterations=0)
