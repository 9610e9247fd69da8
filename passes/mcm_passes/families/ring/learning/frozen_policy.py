"""The control of a learner: the same iterations with a policy that stays as it is."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints
from mcm_models.policy.inference import PolicyOfGraph
from mcm_models.policy.layout import Weights
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.learning.rewards import rewards_of
from mcm_passes.families.ring.learning.tasks import Task


class FrozenPolicy:
    """What `PolicyLearner` is with a learning rate of 0: the same draws, without JAX.

    Args:
        recipe: how partitions are drawn.
        weights: of the policy.
    """

    def __init__(self, recipe: Recipe, weights: Weights) -> None:
        self._recipe, self._weights = recipe, weights
        self._task: Task | None = None
        self._policy: PolicyOfGraph | None = None

    def iterate(self, task: Task, rng: np.random.Generator) -> Ints:
        """Rolls out and rewards once.

        Returns:
            `[R, N]`, the partitions.
        """
        recipe = self._recipe
        if self._policy is None or task is not self._task:
            self._task = task
            self._policy = PolicyOfGraph(recipe.layout, self._weights, task.features, task.prior)
        decoded = self._policy.decode(rng, recipe.rollouts)
        partitions = task.sampler.draw(rng, decoded).partitions
        rewards_of(task.rewards, partitions)
        # A learner shuffles its rollouts before each pass over them.
        for _ in range(recipe.ppo.epochs):
            rng.permutation(recipe.rollouts)
        return partitions
