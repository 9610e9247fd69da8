"""One policy that learns on partitioning problems, iteration by iteration."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_models.policy import ppo
from mcm_models.policy.features import GraphFeatures, Singles, pad_rows
from mcm_models.policy.layout import Weights
from mcm_models.policy.network import Chips, Choices, PolicyOfGraph
from mcm_models.ppo import adam
from mcm_models.training_run import leaves_of, with_leaves
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.learning.rollouts import Rollouts
from mcm_passes.families.ring.learning.tasks import Task, rewards_of

ROOM = 0.95
"""Share of a chip's memory that weights may fill; the rest is for tensors."""

OVERFLOW = 10.0
"""Load of a chip whose weights take twice that, over that of one chip's share of the work."""


def node_credit(
    problem: PartitionProblem, features: GraphFeatures, partitions: Ints, sharpness: float = 1.0
) -> Floats:
    """`[R, n]`: minus the load of the chip that each node went to, standardised.

    Less its mean over the rollouts for each node: what is in the node is no merit of a choice.

    Args:
        problem: gives work and weights.
        features: gives the nodes.
        partitions: `[R, N]`; rows of -1 earn nothing.
        sharpness: power of the load.
    """
    found = partitions[:, 0] >= 0
    credit = np.zeros((len(partitions), features.num_nodes))
    if not found.any():
        return credit
    rows = partitions[found]
    chips = rows[:, features.units]
    loads = _busy(problem, features, chips) + OVERFLOW * _overflow(problem, rows)
    load = -(np.take_along_axis(loads, chips, axis=1) ** sharpness)
    standard = (load - load.mean()) / (load.std() + 1e-30)
    credit[found] = standard - standard.mean(axis=0)
    return credit


def _busy(problem: PartitionProblem, features: GraphFeatures, chips: Ints) -> Floats:
    """`[R, C]`, time of each chip over that of its share of all work."""
    work = problem.compute_s[features.units]
    busy_s = _per_chip(chips, np.broadcast_to(work, chips.shape), problem.num_chips)
    share_s = max(float(work.sum()), 1e-30) / float(problem.chip_speed.sum())
    return busy_s / problem.chip_speed / share_s


def _overflow(problem: PartitionProblem, partitions: Ints) -> Floats:
    """`[R, C]`, by what share the weights of each chip exceed their space."""
    room = ROOM * np.array(problem.limits.sram_bytes, np.float64)
    if not problem.weight_bytes.size or problem.weight_bytes.sum() <= room.min():
        return np.zeros((len(partitions), problem.num_chips))
    weight = np.repeat(np.arange(problem.weight_bytes.size), np.diff(problem.weight_ptr))
    chips = partitions[:, problem.weight_users]
    # A chip holds a weight once, however many of its units read it. Its users there are told
    # apart by sorting chips within each weight.
    key = np.sort(weight * problem.num_chips + chips, axis=1)
    first = np.ones(key.shape, np.bool_)
    first[:, 1:] = key[:, 1:] != key[:, :-1]
    held = np.where(first, problem.weight_bytes[key // problem.num_chips], 0)
    held_bytes = _per_chip(key % problem.num_chips, held, problem.num_chips)
    return np.maximum(held_bytes / room - 1.0, 0.0)


def _per_chip(chips: np.ndarray, values: np.ndarray, num_chips: int) -> Floats:
    """`[R, C]`, sums of `values[R, k]` by `chips[R, k]`."""
    bins = chips + np.arange(len(chips))[:, None] * num_chips
    sums = np.bincount(bins.ravel(), values.ravel(), len(chips) * num_chips)
    return sums.astype(np.float64).reshape(len(chips), num_chips)


@dataclass(frozen=True, eq=False)
class Iteration:
    """Records of one iteration.

    Attributes:
        partitions: `[R, N]`.
        rewards: `[R]`.
        metrics: of the update, by name.
    """

    partitions: Ints
    rewards: Floats
    metrics: dict[str, float]


class PolicyLearner:
    """A policy, its optimizer, and the iterations of MCM, section 4.2.

    Args:
        recipe: how it learns.
        weights: that it starts from.
        state: of the optimizer, from `optimizer_arrays`, to go on where another stopped.

    Raises:
        ValueError: for a state where nodes have scores of their own, which stay with their graph.
    """

    def __init__(self, recipe: Recipe, weights: Weights, state: Weights | None = None) -> None:
        if state is not None and recipe.ppo.node_scores:
            raise ValueError("scores of single nodes cannot go on where another learner stopped")
        self.recipe = recipe
        # States of trainings number the leaves: layer 10 comes after layer 2.
        names = sorted(weights, key=_natural)
        network = OrderedDict((name, jnp.asarray(weights[name])) for name in names)
        self._params = ppo.Trained(network, jnp.zeros((0, 0)))
        self._optimizer = adam(recipe.ppo.max_gradient, recipe.ppo.learning_rate)
        self._state = self._optimizer.init(self._params)
        self._task: Task | None = None
        if state is not None:
            self._state = with_leaves(self._state, state, digits=1)

    @property
    def weights(self) -> Weights:
        """Weights by name."""
        return {name: np.asarray(array) for name, array in sorted(self._params.network.items())}

    def optimizer_arrays(self) -> Weights:
        """State of the optimizer, by number of the leaf."""
        return leaves_of(self._state, digits=1)

    def policy(self, task: Task) -> PolicyOfGraph:
        """The policy as it is, on the graph of a task."""
        scores = task.prior
        if self.recipe.ppo.node_scores:
            own = np.asarray(self._own_scores(task))[: task.features.num_nodes]
            scores = scores + np.float32(self.recipe.ppo.node_scores) * own
        return PolicyOfGraph(self.recipe.layout, self.weights, task.features, scores)

    def iterate(self, task: Task, rng: np.random.Generator) -> Iteration:
        """Rolls out, rewards, and updates once.

        Raises:
            CompileError: MCM-L004 for rewards that are no numbers, MCM-L005 for a graph that is
                too large.
            ValueError: for another task than before where nodes have scores of their own.
        """
        decoded = self.policy(task).decode(rng, self.recipe.rollouts)
        rollouts = task.sampler.draw(rng, decoded)
        rewards = rewards_of(task.rewards, rollouts.partitions)
        advantage = _advantage(task, rollouts, rewards, self.recipe)
        metrics = self._update(task, rollouts, advantage, decoded.before, rng)
        return Iteration(rollouts.partitions, rewards, metrics)

    def _own_scores(self, task: Task) -> jax.Array:
        if self._task is None:
            self._task = task
            shape = (task.padded.op_class.shape[0], task.features.num_chips)
            self._params = self._params._replace(node_scores=jnp.zeros(shape))
            self._state = self._optimizer.init(self._params)
        elif task is not self._task:
            raise ValueError("scores of single nodes were learned on another task")
        return self._params.node_scores

    def _update(
        self,
        task: Task,
        rollouts: Rollouts,
        advantage: Singles,
        before: Ints | None,
        rng: np.random.Generator,
    ) -> dict[str, float]:
        recipe, layout, ppo_settings = self.recipe, self.recipe.layout, self.recipe.ppo
        nodes, chips = task.padded.op_class.shape[0], task.features.num_chips
        choices = None
        if before is not None:
            seen = Choices.of(layout, before, chips)
            choices = Choices(*(jnp.asarray(pad_rows(part, nodes, 1)) for part in seen))
        order = np.stack(
            [
                rng.permutation(recipe.rollouts).reshape(ppo_settings.minibatches, -1)
                for _ in range(ppo_settings.epochs)
            ]
        ).reshape(ppo_settings.epochs * ppo_settings.minibatches, -1)
        self._params, self._state, found = ppo.update(
            layout,
            ppo_settings,
            self._params,
            self._state,
            ppo.Inputs(
                task.padded, Chips.of(layout, chips), jnp.asarray(pad_rows(task.prior, nodes))
            ),
            ppo.Batch(
                jnp.asarray(pad_rows(rollouts.actions, nodes, 1)),
                jnp.asarray(pad_rows(rollouts.log_base, nodes, 1)),
                jnp.asarray(pad_rows(advantage, nodes, 1)),
                choices,
            ),
            jnp.asarray(order.astype(np.int32)),
        )
        return {name: float(value) for name, value in found._asdict().items()}


def _advantage(task: Task, rollouts: Rollouts, rewards: Floats, recipe: Recipe) -> Singles:
    """`[R, n]`: the reward normalised over the rollouts, and each node's credit.

    The paper names no value network; normalising over the rollouts of a graph takes its place.
    """
    normalised = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    advantage = np.repeat(normalised[:, None], task.features.num_nodes, axis=1)
    weight = recipe.credit if rewards.any() else recipe.stuck_credit
    if weight:
        advantage += weight * node_credit(
            task.problem, task.features, rollouts.partitions, recipe.sharpness
        )
    # Where no partition was found there is no decision to learn from.
    advantage[~rollouts.found] = 0.0
    return advantage.astype(np.float32)


def _natural(name: str) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in name.split("/")]
