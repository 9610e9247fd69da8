"""Small problems for policies, and policies that are small."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generators.policy_problems import make_problem, small_policy


@pytest.fixture
def problem_of():
    return make_problem


@pytest.fixture
def small_layout():
    return small_policy


@pytest.fixture
def restless():
    """Weights of a policy that is far from uniform."""
    from mcm_models.policy.layout import initial_weights

    def make(layout, seed=0):
        weights = initial_weights(layout, seed)
        rng = np.random.default_rng(seed)
        small = ("scores", "own_choice", "neighbors", "bias2", "around", "bias3")
        for name in (f"head/{part}" for part in small if f"head/{part}" in weights):
            shape = weights[name].shape
            weights[name] = (0.7 * rng.standard_normal(shape)).astype(np.float32)
        return weights

    return make
