"""Operator partitioning and data parallelism found by deep Q-learning.

After Auto-MAP (Wang et al. 2020, sections 3.2 to 3.4): an episode decides item by item, and the
best decision that any episode ended in counts. In a second stage, episodes start from that decision
with what it replicates undecided again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_q_study.decision_environment import (
    DecisionArrays,
    DecisionEnvironment,
    DecisionItems,
    decision_items,
)
from deep_q_study.learner import PUBLISHED, DqnSettings, Learner, improved
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.parallelism.decisions import decision_problem
from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem

PARTS = 20
"""Equal parts of a stage; its rounds are rounded up to whole parts."""

STAGE_2 = 0.25
"""Share of the iterations that the second stage takes."""


@dataclass(frozen=True)
@checked(iterations=at_least(1))
class DecisionRecipe:
    """How decisions are learned.

    Attributes:
        settings: of deep Q-learning; `replay` grows to hold a round where it does not.
        iterations: gradient steps of both stages.
        published: what is seen is the whole decision, and rewards are not scaled, as in the paper;
            otherwise a few numbers about the item at hand are seen (ours).
        masked: classes are not asked about that cannot be partitioned, by themselves or any more
            (ours); otherwise, as in the paper, a conflict costs a reward and ends the episode.
            Has no effect without linkage groups: they would not be known before a conflict.
        hidden: widths of the network.

    Raises:
        ValueError: if a value is out of range.
    """

    settings: DqnSettings
    iterations: int
    published: bool = False
    masked: bool = True
    hidden: tuple[int, ...] = (32, 32)


RECIPES = {
    "opp": DecisionRecipe(
        dataclasses.replace(improved(PUBLISHED["opp"]), epsilon_iterations=1000), 2000
    ),
    "adp": DecisionRecipe(
        dataclasses.replace(improved(PUBLISHED["adp"]), epsilon_iterations=100, lanes=4),
        160,
        masked=False,
        hidden=(16, 16),
    ),
    "published-opp": DecisionRecipe(
        PUBLISHED["opp"], 4000, published=True, masked=False, hidden=(128, 128)
    ),
    "published-adp": DecisionRecipe(
        PUBLISHED["adp"], 1000, published=True, masked=False, hidden=(128, 128)
    ),
}
"""Recipes by name: what measured best for operator partitioning and for data parallelism, and both
as published."""


@dataclass(frozen=True, eq=False)
class LearnedDecision:
    """The best decision of a learner.

    Attributes:
        partitioned: `[K]` bool, feasible.
        value: what it is worth.
        episodes: that were played.
        iterations: gradient steps.
        first_hit: episodes after which it was found, whole rounds.
    """

    partitioned: NDArray[np.bool_]
    value: float
    episodes: int
    iterations: int
    first_hit: int


def search_decision(
    problem: DecisionProblem,
    recipe: DecisionRecipe,
    seed: int,
    objective: decision_problem.DecisionObjective | None = None,
    *,
    forced: NDArray[np.bool_] | None = None,
    linkage: bool = True,
) -> LearnedDecision:
    """Learns what to partition; the same answer for the same seed.

    Args:
        problem: what is decided about.
        recipe: how.
        seed: of network and episodes.
        objective: what a decision is worth; by default, the number of partitioned tensors.
        forced: `[K]` bool, classes that must be partitioned.
        linkage: whether a linkage group is decided at once, or one dim of one tensor at a time.

    Raises:
        ValueError: if the forced classes are not feasible.
    """
    if forced is None:
        forced = np.zeros(problem.num_classes, dtype=bool)
    elif not problem.is_feasible(forced):
        raise ValueError("the forced classes cannot all be partitioned")
    objective = objective or decision_problem.count_objective(problem)
    items = decision_items(
        problem, objective, linkage=linkage, with_blocked=not (recipe.masked and linkage)
    )
    stages = _Stages(items, recipe, seed, linkage=linkage)
    learned = stages.run(forced) if (~forced[items.item_class]).any() else forced
    if not problem.is_feasible(learned):
        raise AssertionError("the search broke the rules of its problem")
    return LearnedDecision(
        learned, objective.value(learned), stages.episodes, stages.iterations, stages.first_hit
    )


class _Stages:
    """The two stages, and what happens in them."""

    def __init__(
        self, items: DecisionItems, recipe: DecisionRecipe, seed: int, *, linkage: bool
    ) -> None:
        self.episodes = self.iterations = self.first_hit = 0
        self._best_value = -np.inf
        self._items, self._recipe, self._seed, self._linkage = items, recipe, seed, linkage
        needed = recipe.settings.lanes * len(items.item_class)
        self._settings = dataclasses.replace(
            recipe.settings, replay=max(recipe.settings.replay, needed)
        )

    def run(self, forced: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The best decision `[K]` of both stages."""
        second = max(1, round(STAGE_2 * self._recipe.iterations))
        start = np.where(forced, np.int8(1), np.int8(-1))
        first = max(1, self._recipe.iterations - second)
        best, value = self._stage(start, first, 1)
        again = np.where(best, np.int8(1), np.int8(-1))
        open_items = ~best[self._items.item_class]
        if self._linkage and open_items.any():
            more, more_value = self._stage(again, second, 2)
            best = more if more_value > value else best
        return best

    def _stage(
        self, start: NDArray[np.int8], iterations: int, stage: int
    ) -> tuple[NDArray[np.bool_], float]:
        """The best decision of a stage, and its score."""
        seed = 2 * self._seed + stage - 1
        recipe = self._recipe
        environment = DecisionEnvironment(
            self._arrays(start), masked=self._linkage and recipe.masked, flat=recipe.published
        )
        layout = environment.layout(recipe.hidden)
        learner = Learner(environment, layout, self._settings, seed, iterations)
        rounds = -(-iterations // self._settings.updates)
        part = max(1, rounds // PARTS)
        for value in learner.advance(-(-rounds // part) * part).best_score.tolist():
            self.episodes += self._settings.lanes
            if value > self._best_value:
                self._best_value, self.first_hit = value, self.episodes
        self.iterations += learner.iterations
        return learner.best == 1, learner.best_score

    def _arrays(self, start: NDArray[np.int8]) -> DecisionArrays:
        """The instance; what is decided already is not asked about again."""
        items, recipe = self._items, self._recipe
        partition, replicate, term = items.rewards(recipe.published)
        item_class = np.where(start[items.item_class] == 1, -1, items.item_class)
        return DecisionArrays(
            item_class=item_class.astype(np.int32),
            partition_reward=partition,
            replicate_reward=replicate,
            blocked=items.blocked,
            conflicts=items.conflicts.astype(np.float32),
            gain=items.linear.astype(np.float32),
            term_class=items.members.astype(np.float32),
            term_gain=items.term_gain.astype(np.float32),
            term_reward=np.float32(term),
            start=start,
        )
