"""Problems and rewards of a policy; no JAX here, so that it can be applied without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_compiler.diagnostics import CompileError
from mcm_models.policy.features import (
    GraphFeatures,
    PaddedGraph,
    Singles,
    graph_features,
    pad_graph,
)
from mcm_models.policy.layout import Weights
from mcm_models.policy.network import PolicyOfGraph, balanced_prior, prior_around
from mcm_passes.families.ring.learning import rollouts
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.mapping.machine.periods import AnalyticPeriods

LEAST_S = 1e-30
"""Seconds that the period of a baseline has at least, and that any period counts as at least."""


Rewards = Callable[[Ints], Floats]
"""`[B]`, the throughput of each of some partitions `[B, N]` over that of a baseline.

By an analytic model, the simulator, or hardware; 0 where a partition does not run."""


def fast_rewards(problem: PartitionProblem, baseline_s: float) -> Rewards:
    """Rewards of the analytic model (MCM, section 5.1: the analytic cost model)."""
    periods = AnalyticPeriods(problem, few=0)
    return lambda partitions: relative_throughput(periods.periods(partitions), baseline_s)


def rewards_of(evaluate: Rewards, partitions: Ints) -> Floats:
    """`[B]`, rewards of `partitions[B, N]`; 0 for rows of -1, which are not evaluated.

    Raises:
        CompileError: MCM-L004 if a reward is not a number from 0 up.
    """
    rewards = np.zeros(len(partitions))
    found = partitions[:, 0] >= 0
    if found.any():
        rewards[found] = evaluate(partitions[found])
    wrong = ~(np.isfinite(rewards) & (rewards >= 0))
    if wrong.any():
        raise CompileError.of(
            "MCM-L004",
            f"{wrong.sum()} of {len(rewards)} rewards are no numbers from 0 up, the first "
            f"is {rewards[wrong][0]}",
            at="the evaluator of partitions",
        )
    return rewards


def relative_throughput(period_s: Floats, baseline_s: float) -> Floats:
    """Rewards of periods; what does not run, with an infinite period, earns nothing.

    Periods below `LEAST_S` count as that, so that one of 0 s earns a finite reward.
    """
    return baseline_s / np.maximum(period_s, LEAST_S)


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
    sampler: rollouts.Sampler
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
            order = rollouts.orders_of_least_span(problem, features)[0]
        if start is not None:
            chips = start[features.units]
            order = rollouts.order_of_partition(features, order, chips)
            features = features.along((chips + 0.5) / features.num_chips)
            prior = prior_around(chips, features.num_chips, recipe.start_prior)
        else:
            place = rollouts.share_before(problem, features, order)
            features = features.along(place)
            if recipe.prior:
                prior = balanced_prior(place, features.num_chips, recipe.prior)
            else:
                prior = np.zeros((features.num_nodes, features.num_chips), np.float32)
        sampler = rollouts.sampler_of(problem, features, recipe, order, best_s)
        return cls(problem, features, prior, sampler, rewards)


class FrozenPolicy:
    """`PolicyLearner` with a learning rate of 0: the same draws, without JAX.

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
