"""Scores of checkpoints on models that they have not learned from.

The jobs are pure functions of what is sent to them: a checkpoint's bytes, problems, and a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Floats
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_models.policy.checkpoint import parse_checkpoint
from mcm_models.policy.inference import PolicyOfGraph
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.learning.rewards import rewards_of
from mcm_passes.families.ring.learning.tasks import Task
from mcm_passes.families.ring.learning.training_problems import TrainingProblem

ZERO_SHOT_SAMPLES = 200
"""Partitions that a checkpoint draws per model, without learning."""

TUNING_SAMPLES = 200
"""Partitions that a checkpoint may learn from per model."""

_FLOOR = 1e-2
"""In place of a reward of 0 in geometric means."""


@dataclass(frozen=True)
class Score:
    """How good a policy is, as throughput over the heuristic's.

    Attributes:
        overall: geometric mean over models.
        by_model: of each model, the best so far of its samples in their order, on average.
    """

    overall: float
    by_model: Mapping[str, float]

    @classmethod
    def of(cls, by_model: Mapping[str, float]) -> Score:
        """From the scores of the models."""
        values = np.maximum(list(by_model.values()), _FLOOR)
        return cls(float(np.exp(np.log(values).mean())), by_model)


def zero_shot(
    checkpoint: bytes, recipe: Recipe, problems: Sequence[TrainingProblem], seed: int
) -> Score:
    """A checkpoint as it is: it draws, and does not learn.

    Args:
        checkpoint: content of the file.
        recipe: how partitions come about.
        problems: to draw partitions of.
        seed: of the draws.
    """
    use_one_thread()
    weights, card = parse_checkpoint(checkpoint, "checkpoint")
    by_model: dict[str, float] = {}
    for k, each in enumerate(problems):
        task = Task.of(each.problem, recipe, each.rewards())
        policy = PolicyOfGraph(card.layout, weights, task.features, task.prior)
        rng = np.random.default_rng((seed, k))
        partitions = task.sampler.draw(rng, policy.decode(rng, ZERO_SHOT_SAMPLES)).partitions
        by_model[each.model] = best_so_far(rewards_of(task.rewards, partitions))
    return Score.of(by_model)


def fine_tuned(
    checkpoint: bytes, recipe: Recipe, each: TrainingProblem, seed: int
) -> tuple[str, float]:
    """A checkpoint that goes on learning on one model; the model and its score.

    Args:
        checkpoint: content of the file.
        recipe: how it learns.
        each: the model.
        seed: of the draws.
    """
    use_one_thread()
    from mcm_passes.families.ring.learning.learner import PolicyLearner

    weights, _ = parse_checkpoint(checkpoint, "checkpoint")
    learner = PolicyLearner(recipe, weights)
    task = Task.of(each.problem, recipe, each.rewards())
    rng = np.random.default_rng(seed)
    iterations = TUNING_SAMPLES // recipe.rollouts
    rewards = [learner.iterate(task, rng).rewards for _ in range(iterations)]
    return each.model, best_so_far(np.concatenate(rewards))


def best_so_far(rewards: Floats) -> float:
    """Mean over the samples of the best reward up to each: the area under a search's curve."""
    return float(np.maximum.accumulate(rewards).mean())
