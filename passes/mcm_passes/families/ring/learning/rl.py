"""Reinforcement learning on one problem, from scratch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.components.extras import LEARN
from mcm_compiler.contracts.partition import Budget, Evaluate, Outcome, PartitionProblem
from mcm_compiler.text.option_fields import at_least, checked, one_of
from mcm_models.policy.layout import initial_weights
from mcm_passes.families.ring.learning import rl_run
from mcm_passes.families.ring.learning.recipes import RECIPES


class _Rewarded:
    """A strategy with a choice of rewards."""

    reward: rl_run.Reward

    @property
    def asks_evaluator(self) -> bool:
        """True if it asks the evaluator of the budget."""
        return self.reward == "judge"


@dataclass(frozen=True)
@checked(recipe=one_of(RECIPES), draws=at_least(0), samples=at_least(0), effort_s=at_least(0))
class RlFinetune(_Rewarded):
    """A policy that learned on other graphs goes on with this one (MCM, section 4.4).

    Attributes:
        policy: path of its checkpoint; empty for the one that comes with the compiler.
        recipe: name of the recipe that it goes on with; layout, prior and sampler stay as they
            were in training.
        reward: `fast` or `judge`; see `Reward`.
        start: strategy whose answer is searched around, `known` for the best that the caller
            knows (a portfolio its members' answers), empty for none (ours).
        draws: partitions that the policy draws along several orders before it learns, around
            the best of them (ours); 0 for none.
        samples: most partitions that it evaluates; 0 for all that the budget allows.
        effort_s: most deterministic seconds of updates; 0 for no limit.
    """

    name: ClassVar[str] = "rl-finetune"
    summary: ClassVar[str] = "a policy trained on other models goes on learning on this one"
    learns: ClassVar[bool] = True
    extra: ClassVar[str] = LEARN

    policy: str = ""
    recipe: str = "default"
    reward: rl_run.Reward = "fast"
    start: str = ""
    draws: int = 0
    samples: int = 0
    effort_s: float = 0.0

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Learns until the budget is spent.

        Raises:
            CompileError: MCM-L001 to MCM-L003 for the checkpoint, MCM-L004 for rewards that are no
                numbers, MCM-L005 for a graph that is too large, MCM-L012 without the extra, and as
                the strategy that it starts from.
        """
        weights, card = rl_run.policy_of(self.policy)
        run = rl_run.LearnedRun.of(problem, evaluate, budget, self.reward, self.samples)
        if self.start and (end := run.begin(self.start, evaluate, rng)) is not None:
            return end
        recipe = rl_run.recipe_of(card, self.recipe)
        if self.draws:
            run.draw(recipe, weights, rng, self.draws)
        return run.learn(recipe, weights, rng, self.effort_s)


@dataclass(frozen=True)
@checked(samples=at_least(0))
class RlZeroshot(_Rewarded):
    """Draws from a policy that learned on other graphs (MCM, section 5.2: *RL zero-shot*).

    Needs no JAX: the policy runs in NumPy.

    Attributes:
        policy: path of its checkpoint; empty for the one that comes with the compiler.
        reward: what the best is chosen by; see `Reward`.
        samples: most partitions that it evaluates; 0 for all that the budget allows.
    """

    name: ClassVar[str] = "rl-zeroshot"
    summary: ClassVar[str] = "draws of a policy that was trained on other models"

    policy: str = ""
    reward: rl_run.Reward = "fast"
    samples: int = 0

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Draws until the budget is spent.

        Raises:
            CompileError: MCM-L001 to MCM-L003 for the checkpoint.
        """
        weights, card = rl_run.policy_of(self.policy)
        run = rl_run.LearnedRun.of(problem, evaluate, budget, self.reward, self.samples)
        return run.draw(rl_run.recipe_of(card), weights, rng)


@dataclass(frozen=True)
@checked(recipe=one_of(RECIPES), samples=at_least(0), effort_s=at_least(0))
class Rl(_Rewarded):
    """A policy that starts from random weights learns on the problem itself (MCM, section 4).

    Attributes:
        recipe: name of a recipe of `mcm_passes.families.ring.learning.recipes`.
        reward: `fast` or `judge`; see `Reward`.
        start: strategy whose answer is searched around, `known` for the best that the caller
            knows (a portfolio its members' answers), empty for none (ours).
        samples: most partitions that it evaluates; 0 for all that the budget allows.
        effort_s: most deterministic seconds of updates; 0 for no limit.
    """

    name: ClassVar[str] = "rl"
    summary: ClassVar[str] = "reinforcement learning on this problem, from scratch"
    learns: ClassVar[bool] = True
    extra: ClassVar[str] = LEARN

    recipe: str = "default"
    reward: rl_run.Reward = "fast"
    start: str = ""
    samples: int = 0
    effort_s: float = 0.0

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Learns until the budget is spent.

        Raises:
            CompileError: MCM-L004 for rewards that are no numbers, MCM-L005 for a graph that is
                too large, MCM-L012 without the extra, and as the strategy that it starts from.
        """
        recipe = RECIPES[self.recipe]
        run = rl_run.LearnedRun.of(problem, evaluate, budget, self.reward, self.samples)
        if self.start and (end := run.begin(self.start, evaluate, rng)) is not None:
            return end
        weights = initial_weights(recipe.layout, int(rng.integers(1 << 31)))
        return run.learn(recipe, weights, rng, self.effort_s)
