"""The control that learns nothing is the learner with a learning rate of 0, draw by draw."""

from __future__ import annotations

import dataclasses

import numpy as np

from mcm_models.policy.layout import initial_weights
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.ring.learning.learner import PolicyLearner
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.learning.tasks import FrozenPolicy, Task, fast_rewards

ROUNDS = 4


def test_it_draws_what_a_learner_without_steps_draws(problem_of, small_layout):
    layout = small_layout(knots=3)
    problem = problem_of(3, n=6, chips=3)
    still = PpoSettings(epochs=2, minibatches=2, learning_rate=0.0, node_scores=100.0)
    recipe = dataclasses.replace(Recipe(), layout=layout, rollouts=8, ppo=still)
    weights = initial_weights(layout, 0)

    def drawn(iterate):
        task = Task.of(problem, recipe, fast_rewards(problem, 3e-5))
        rng = np.random.default_rng(7)
        return np.stack([iterate(task, rng) for _ in range(ROUNDS)])

    learner = PolicyLearner(recipe, weights)
    same = drawn(lambda task, rng: learner.iterate(task, rng).partitions)
    assert (drawn(FrozenPolicy(recipe, weights).iterate) == same).all()
    assert all((learner.weights[name] == value).all() for name, value in weights.items())
