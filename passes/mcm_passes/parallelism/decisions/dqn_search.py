"""Operator partitioning and data parallelism found by deep Q-learning, beside its controls.

After Auto-MAP (Wang et al. 2020, sections 3.2 to 3.4): an episode decides item by item, and the
best decision that any episode ended in counts. In a second stage, episodes start from that decision
with what it replicates undecided again. The answer is the best of the learner's and its controls'.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_models.dqn.decisions import DecisionArrays, DecisionEnvironment
from mcm_models.dqn.learner import Learner
from mcm_models.dqn.settings import PUBLISHED, DqnSettings, improved
from mcm_passes.parallelism.decisions import decision_objective
from mcm_passes.parallelism.decisions.count_oracle import OracleDecision, best_decision
from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem


def largest_first(
    items: decision_objective.DecisionItems, forced: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """`[K]`: partitions every item that it can and that adds something, in order.

    Args:
        items: what is decided.
        forced: `[K]` bool, classes that must be partitioned.
    """
    partitioned = forced.copy()
    for group in items.item_class[~forced[items.item_class]].tolist():
        unpaid = items.members[:, group] & ~(items.members & partitioned).any(axis=1)
        adds = items.linear[group] + items.term_gain[unpaid].sum()
        if adds > 0 and not (items.blocked[group] or (items.conflicts[group] & partitioned).any()):
            partitioned[group] = True
    return partitioned


def random_search(
    items: decision_objective.DecisionItems,
    objective: decision_objective.DecisionObjective,
    forced: NDArray[np.bool_],
    episodes: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], float]:
    """The best of decisions that toss a coin wherever partitioning is possible.

    The same episodes as the learner's with masked actions, in the same order of items.

    Args:
        items: what is decided.
        objective: what it is worth.
        forced: `[K]` bool, classes that must be partitioned.
        episodes: how many.
        rng: source of the coins.

    Returns:
        `[K]` and its value.
    """
    count = len(items.blocked)
    best, best_value = forced.copy(), objective.value(forced)
    start_value = best_value
    excluded = items.blocked | items.conflicts[forced].any(axis=0)
    start_paid: NDArray[np.bool_] = np.any(items.members & forced, axis=1)
    for first in range(0, episodes, 1024):
        lanes = min(1024, episodes - first)
        coins = rng.random((len(items.item_class), lanes)) < 0.5
        partitioned = np.tile(forced[:, None], (1, lanes))
        against = np.zeros((count, lanes), dtype=bool)
        decided = forced.copy()
        paid = np.tile(start_paid[:, None], (1, lanes))
        value = np.full(lanes, start_value)
        for coin, group in zip(coins, items.item_class.tolist(), strict=True):
            if decided[group]:
                continue
            decided[group] = True
            taken = coin & ~against[group] & (not excluded[group])
            if not taken.any():
                continue
            newly = items.members[:, group, None] & taken & ~paid
            paid |= newly
            value += taken * items.linear[group] + items.term_gain @ newly
            partitioned[group] = taken
            against |= items.conflicts[group][:, None] & taken
        top = int(np.argmax(value))
        if value[top] > best_value:
            best, best_value = partitioned[:, top].copy(), float(value[top])
    return best, best_value


CHECKS = 20
"""Parts that a stage is divided into, for its curve and for progress."""

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
    """What a search found.

    Attributes:
        partitioned: `[K]` bool: the best decision of all, always feasible.
        value: what it is worth.
        found_by: "dqn", "largest-first" or "random".
        dqn: `[K]` bool, the learner's best.
        values: by method, what its best decision is worth.
        oracle: the exact answer, for comparison alone.
        gaps: by method, how far it is below the oracle's bound, as a share of that.
        episodes: that the learner played.
        iterations: gradient steps that it took.
        first_hit: episodes after which its best was found, whole rounds.
        seconds: wall time of the learner.
        curve: episodes, and the best value by then, where it rose; and the last.
    """

    partitioned: NDArray[np.bool_]
    value: float
    found_by: str
    dqn: NDArray[np.bool_]
    values: dict[str, float]
    oracle: OracleDecision
    gaps: dict[str, float]
    episodes: int
    iterations: int
    first_hit: int
    seconds: float
    curve: tuple[tuple[int, float], ...] = field(default=())


def search_decision(
    problem: DecisionProblem,
    recipe: DecisionRecipe,
    seed: int,
    objective: decision_objective.DecisionObjective | None = None,
    *,
    forced: NDArray[np.bool_] | None = None,
    linkage: bool = True,
    progress: Callable[[int, float], None] | None = None,
) -> LearnedDecision:
    """Learns what to partition; the same answer for the same seed.

    Args:
        problem: what is decided about.
        recipe: how.
        seed: of network, episodes and the random control.
        objective: what a decision is worth; by default, the number of partitioned tensors.
        forced: `[K]` bool, classes that must be partitioned.
        linkage: whether a linkage group is decided at once, or one dim of one tensor at a time.
        progress: called with iterations and the best value so far.

    Raises:
        ValueError: if the forced classes are not feasible.
    """
    if forced is None:
        forced = np.zeros(problem.num_classes, dtype=bool)
    objective = objective or decision_objective.count_objective(problem)
    oracle = best_decision(problem, objective, forced=forced)
    items = decision_objective.decision_items(
        problem, objective, linkage=linkage, with_blocked=not (recipe.masked and linkage)
    )
    started = time.perf_counter()
    stages = _Stages(items, recipe, seed, linkage=linkage, progress=progress)
    learned = stages.run(forced) if (~forced[items.item_class]).any() else forced
    seconds = time.perf_counter() - started
    groups = items if linkage else decision_objective.decision_items(problem, objective)
    rng = seeded_generator(seed, "random decisions")
    found = {
        "dqn": learned,
        "largest-first": largest_first(groups, forced),
        "random": random_search(groups, objective, forced, max(stages.episodes, 1), rng)[0],
    }
    if not all(problem.is_feasible(decision) for decision in (*found.values(), oracle.partitioned)):
        raise AssertionError("a search broke the rules of its problem")
    values = {name: objective.value(decision) for name, decision in found.items()}
    winner = max(values, key=lambda name: values[name])
    return LearnedDecision(
        partitioned=found[winner],
        value=values[winner],
        found_by=winner,
        dqn=learned,
        values=values,
        oracle=oracle,
        gaps={name: decision_objective.gap(value, oracle.bound) for name, value in values.items()},
        episodes=stages.episodes,
        iterations=stages.iterations,
        first_hit=stages.first_hit,
        seconds=seconds,
        curve=tuple(stages.curve),
    )


class _Stages:
    """The two stages, and what happens in them."""

    def __init__(
        self,
        items: decision_objective.DecisionItems,
        recipe: DecisionRecipe,
        seed: int,
        *,
        linkage: bool,
        progress: Callable[[int, float], None] | None,
    ) -> None:
        self.episodes = self.iterations = self.first_hit = 0
        self.best_value = -np.inf
        self.curve: list[tuple[int, float]] = []
        self._items, self._recipe, self._seed, self._linkage = items, recipe, seed, linkage
        self._progress = progress
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
        self.curve.append((self.episodes, float(self.best_value)))
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
        part = max(1, rounds // CHECKS)
        for _ in range(-(-rounds // part)):
            for value in learner.advance(part).best_score.tolist():
                self.episodes += self._settings.lanes
                if value > self.best_value:
                    self.best_value, self.first_hit = value, self.episodes
                    self.curve.append((self.episodes, value))
            if self._progress:
                self._progress(self.iterations + learner.iterations, float(self.best_value))
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
