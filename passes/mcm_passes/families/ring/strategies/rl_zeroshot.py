"""A pre-trained policy, applied as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.contracts.partition import Budget, Evaluate, Outcome, PartitionProblem
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_passes.families.ring.strategies.rl_rewards import Reward
from mcm_passes.families.ring.strategies.rl_run import (
    LearnedRun,
    policy_of,
    recipe_of,
)


@dataclass(frozen=True)
@checked(samples=at_least(0))
class RlZeroshot:
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
    reward: Reward = "fast"
    samples: int = 0

    @property
    def asks_evaluator(self) -> bool:
        """Whether it asks the evaluator of the budget."""
        return self.reward == "judge"

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
        weights, card = policy_of(self.policy)
        run = LearnedRun.of(problem, evaluate, budget, self.reward, self.samples)
        return run.draw(recipe_of(card), weights, rng)
