"""The exact oracle against all decisions."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcm_passes.parallelism.decisions import count_oracle
from mcm_passes.parallelism.decisions.decision_problem import (
    DecisionObjective,
    components,
    count_objective,
)

SEEDS = st.integers(0, 10_000)
FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(seed=SEEDS, classes=st.integers(1, 8), density=st.sampled_from([0.0, 0.2, 0.6]))
def test_the_count_is_the_best_of_all_decisions(decisions_of, brute_force, seed, classes, density):
    problem = decisions_of(seed, classes=classes, density=density)
    objective = count_objective(problem)
    found = count_oracle.best_decision(problem, objective)
    assert problem.is_feasible(found.partitioned)
    assert found.proven
    assert found.value == found.bound == brute_force(problem, objective)
    assert found.value == sum(
        dim >= 0 for dim in problem.partitioned_dims(found.partitioned).values()
    )


@FEW
@given(seed=SEEDS, terms=st.integers(0, 5))
def test_terms_that_count_once(decisions_of, objective_of, brute_force, seed, terms):
    problem, objective = decisions_of(seed), objective_of(seed, terms=terms)
    found = count_oracle.best_decision(problem, objective)
    assert problem.is_feasible(found.partitioned)
    assert found.value == pytest.approx(brute_force(problem, objective), abs=1e-9)


@FEW
@given(seed=SEEDS, enumerated=st.sampled_from([0, 10]))
def test_forced_classes(decisions_of, objective_of, brute_force, seed, enumerated):
    problem, objective = decisions_of(seed), objective_of(seed)
    free = np.flatnonzero(~problem.blocked)
    forced = np.zeros(8, dtype=bool)
    forced[free[seed % len(free) :][:1]] = True
    worth = 1000.0
    wanted = dataclasses.replace(objective, linear=objective.linear + worth * forced)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_oracle, "ENUMERATED", enumerated)
        found = count_oracle.best_decision(problem, objective, forced=forced)
    assert found.partitioned[forced].all()
    expected = brute_force(problem, wanted) - worth * forced.sum()
    assert found.value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_cp_sat_finds_what_enumeration_does(decisions_of, objective_of, monkeypatch, seed):
    problem, objective = decisions_of(seed, blocked=0.0), objective_of(seed)
    by_count = count_objective(problem)
    expected = [count_oracle.best_decision(problem, one).value for one in (objective, by_count)]
    monkeypatch.setattr(count_oracle, "ENUMERATED", 0)
    found = [count_oracle.best_decision(problem, one) for one in (objective, by_count)]
    assert [one.value for one in found] == pytest.approx(expected, abs=1e-9)
    assert all(one.proven and problem.is_feasible(one.partitioned) for one in found)


def test_without_effort_the_bound_still_holds(decisions_of, monkeypatch):
    monkeypatch.setattr(count_oracle, "ENUMERATED", 0)
    problem = decisions_of(3, tensors=120, classes=90, density=0.05, blocked=0.0)
    objective = count_objective(problem)
    rushed = count_oracle.best_decision(problem, objective, effort_s=1e-9)
    exact = count_oracle.best_decision(problem, objective)
    assert problem.is_feasible(rushed.partitioned)
    assert rushed.value <= exact.value <= rushed.bound


def test_nothing_to_decide(decisions_of):
    problem = decisions_of(0, blocked=1.0)
    found = count_oracle.best_decision(problem, count_objective(problem))
    assert (found.value, found.proven) == (0.0, True)
    assert not found.partitioned.any()


def test_conflicts_and_components(decisions_of):
    problem = decisions_of(1, classes=70, density=0.01)
    dense = problem.conflicts
    assert dense.shape == (70, 70)
    assert np.array_equal(dense, dense.T)
    one = np.zeros(70, dtype=bool)
    for i, j in np.argwhere(dense)[:20]:
        one[:] = False
        one[[i, j]] = True
        assert not problem.is_feasible(one & ~problem.blocked) or problem.blocked[[i, j]].any()
    parts = components(dense)
    assert sorted(np.concatenate(parts).tolist()) == list(range(70))
    label = np.zeros(70, int)
    for number, part in enumerate(parts):
        label[part] = number
    i, j = np.nonzero(dense)
    assert (label[i] == label[j]).all()


def test_objectives_that_do_not_fit_are_refused():
    for shape in ((0, 2), (1, 3)):
        with pytest.raises(ValueError, match="members"):
            DecisionObjective("cost", np.zeros(2), np.zeros(1), np.zeros(shape, bool))


@pytest.mark.parametrize("kind", ["chain", "blocks", "cliques"])
def test_thousands_of_classes_are_proven_within_seconds(decisions_of, kind):
    count, rng = 3000, np.random.default_rng(1)
    conflicts = np.zeros((count, count), dtype=bool)
    if kind == "chain":
        np.fill_diagonal(conflicts[1:], val=True)
    else:
        for first in range(0, count, 6):
            meet = rng.random((6, 6)) < 0.5
            conflicts[first : first + 6, first : first + 6] = meet | (kind == "cliques")
        np.fill_diagonal(conflicts[6:], val=True)
    conflicts |= conflicts.T
    np.fill_diagonal(conflicts, val=False)
    problem = dataclasses.replace(
        decisions_of(0, tensors=count, classes=count, density=0.0, blocked=0.0), conflicts=conflicts
    )
    sizes = rng.integers(1, 4, count)[:, None]
    starts = rng.integers(0, count - 4, count)[:, None]
    objective = DecisionObjective(
        "cost",
        linear=rng.random(count) * 1e-3,
        term_gain=rng.random(count) * -7e-4,
        members=(np.arange(count) >= starts) & (np.arange(count) < starts + sizes),
    )
    began = time.process_time()
    found = count_oracle.best_decision(problem, objective)
    assert found.proven
    assert problem.is_feasible(found.partitioned)
    assert time.process_time() - began < 10.0
