"""Random decision problems and objectives."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.processes.one_thread import use_one_thread
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective, DecisionProblem

use_one_thread()


def make_problem(seed, tensors=10, classes=8, density=0.15, blocked=0.2):
    """Tensors with dims of random classes; dims of one tensor conflict, and some others."""
    rng = np.random.default_rng(seed)
    dims = [
        rng.choice(classes, rng.integers(1, min(3, classes) + 1), replace=False)
        for _ in range(tensors)
    ]
    conflicts = np.triu(rng.random((classes, classes)) < density, 1)
    for one in dims:
        conflicts[np.ix_(one, one)] = True
    conflicts |= conflicts.T
    np.fill_diagonal(conflicts, False)
    dim_class = np.concatenate(dims).astype(np.int32)
    dim_class[rng.random(len(dim_class)) < 0.1] = -1
    lengths = [len(one) for one in dims]
    return DecisionProblem(
        tensors=tuple(f"w{v}" for v in range(tensors)),
        dim_ptr=np.cumsum([0, *lengths]).astype(np.int32),
        dim_class=dim_class,
        blocked=rng.random(classes) < blocked,
        conflicts=conflicts,
        size=np.full(classes, 64),
        dim_bytes=np.repeat(rng.integers(1, 1000, tensors), lengths),
    )


def make_objective(seed, classes=8, terms=4):
    """Fractional gains of either sign, and terms of either sign."""
    rng = np.random.default_rng(seed)
    members = [rng.choice(classes, min(2, classes), replace=False) for _ in range(terms)]
    return DecisionObjective(
        "cost",
        rng.normal(1.0, 2.0, classes),
        rng.normal(-1.0, 1.0, terms),
        np.array([np.isin(range(classes), term) for term in members], bool).reshape(-1, classes),
    )


def best_by_trying(problem, objective):
    """The value of the best of all feasible decisions."""
    count, best = problem.num_classes, -np.inf
    for subset in range(1 << count):
        chosen = np.array([subset >> k & 1 for k in range(count)], dtype=bool)
        if problem.is_feasible(chosen):
            best = max(best, objective.value(chosen))
    return best


@pytest.fixture(scope="session")
def decisions_of():
    return make_problem


@pytest.fixture(scope="session")
def objective_of():
    return make_objective


@pytest.fixture(scope="session")
def brute_force():
    return best_by_trying
