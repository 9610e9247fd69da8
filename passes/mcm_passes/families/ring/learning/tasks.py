"""Problems as a policy meets them; no JAX here, so that a policy can be applied without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_models.policy.features import GraphFeatures, Singles, graph_features
from mcm_models.policy.padding import PaddedGraph, pad_graph
from mcm_models.policy.prior import balanced_prior, prior_around
from mcm_passes.families.ring.learning import orders
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.learning.rewards import Rewards
from mcm_passes.families.ring.learning.rollouts import Sampler, sampler_of


@dataclass(frozen=True, eq=False)
class Task:
    """A problem to learn on, with all that stays the same between iterations.

    Attributes:
        problem: what is to be placed.
        features: as the policy sees it.
        prior: `[n, C]`, added to all scores.
        sampler: makes valid partitions.
        rewards: evaluates them.
    """

    problem: PartitionProblem
    features: GraphFeatures
    prior: Singles
    sampler: Sampler
    rewards: Rewards

    @cached_property
    def padded(self) -> PaddedGraph:
        """The graph for JAX.

        Raises:
            CompileError: MCM-L005 for a graph that is too large.
        """
        return pad_graph(self.features)

    @classmethod
    def of(
        cls,
        problem: PartitionProblem,
        recipe: Recipe,
        rewards: Rewards,
        start: Ints | None = None,
        order: Ints | None = None,
        best_s: Callable[[], float] | None = None,
    ) -> Task:
        """Prepares a task.

        Args:
            problem: what is to be placed.
            recipe: how partitions come about.
            rewards: evaluates them.
            start: `[N]`, a valid partition to search around, or None. The prior then prefers its
                chips, and an order sampler goes along its chips, so that it can draw it.
            order: `[n]`, topological order that an order sampler goes along, on each chip where
                there is a start; the first of `orders_of_least_span` where None.
            best_s: the best period so far, for recipes that draw only what may be better.
        """
        features = graph_features(problem)
        if order is None:
            order = orders.orders_of_least_span(problem, features)[0]
        if start is not None:
            chips = start[features.units]
            order = orders.order_of_partition(features, order, chips)
            features = features.along((chips + 0.5) / features.num_chips)
            prior = prior_around(chips, features.num_chips, recipe.start_prior)
        else:
            place = orders.share_before(problem, features, order)
            features = features.along(place)
            if recipe.prior:
                prior = balanced_prior(place, features.num_chips, recipe.prior)
            else:
                prior = np.zeros((features.num_nodes, features.num_chips), np.float32)
        sampler = sampler_of(problem, features, recipe, order, best_s)
        return cls(problem, features, prior, sampler, rewards)
