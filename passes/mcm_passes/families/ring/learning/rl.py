"""Reinforcement learning on one problem: from scratch, from a trained policy, or none at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from mcm_compiler.components.extras import LEARN, require_learning
from mcm_compiler.contracts import partition
from mcm_compiler.contracts.evaluation import ResultKind
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.text.option_fields import at_least, checked, one_of
from mcm_models.policy.features import EDGES_PER_NODE, graph_features
from mcm_models.policy.layout import POLICIES, SHIPPED_POLICY, PolicyCard, Weights, initial_weights
from mcm_models.policy.network import PolicyOfGraph
from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe, transferring
from mcm_passes.families.ring.learning.rollouts import (
    may_improve,
    order_of_partition,
    orders_of_least_span,
)
from mcm_passes.families.ring.learning.tasks import (
    LEAST_S,
    FrozenPolicy,
    Task,
    relative_throughput,
    rewards_of,
)
from mcm_passes.families.ring.solver.random_stream import linear_extensions, streams
from mcm_passes.families.ring.strategies.local_search import KNOWN, NOTHING_DRAWN
from mcm_passes.mapping.problem.rule_graph import rule_graph
from mcm_passes.mapping.search.named import LEARNS_AT, WITHOUT_LEARNING, answer_of, strategy_of
from mcm_passes.mapping.search.search import Search

Reward = Literal["fast", "judge"]
"""Reward of a policy: the analytic model (MCM, section 5.2), or the simulator in place of
hardware (MCM, section 5.3)."""


STEP_S = 3e-5
"""Deterministic seconds that a gradient step is taken to last, for each node."""

MOST_WITHOUT_VALID = 8
"""Iterations without any partition after which a run ends."""

RANDOM_ORDERS = 32
"""Random orders that are looked at before a search goes on along one on which it can only lose."""

SHOTS = 5
"""Partitions that a policy draws at each of `TEMPERATURES` along an order before it goes on with
the next, where it does not learn."""

TEMPERATURES = (0.5, 1.0, 4.0, 16.0)
"""A policy is too sure of graphs like those that it has seen, so that all draws are the same, and
not sure enough of large ones (ours)."""


def policy_of(path: str) -> tuple[Weights, PolicyCard]:
    """The policy in a file, or the one that comes with the compiler where `path` is empty.

    Raises:
        CompileError: MCM-L001 to MCM-L003 as `POLICIES.load`.
    """
    return POLICIES.load(Path(path) if path else SHIPPED_POLICY)


def recipe_of(card: PolicyCard, name: str = "default") -> Recipe:
    """How to go on with a policy: with layout, prior and sampler as they were in its training."""
    sampler = "engine" if card.sampler == "engine" else "staircase"
    return dataclasses.replace(
        transferring(RECIPES[name]), layout=card.layout, prior=card.prior, sampler=sampler
    )


class LearnedRun:
    """A search with a policy, which evaluates rewards and keeps the best by the same measure.

    Every partition is evaluated under the roofline, which counts; those that run there are shown
    to the evaluator where there is one. What the budget no longer allows earns nothing.

    Args:
        problem: what is to be placed.
        evaluate: as in `PartitionStrategy.solve`.
        budget: likewise.
        reward: what partitions are rewarded by.
        samples: as the option, 0 for all that the budget allows.

    Attributes:
        search: how much of the budget is left, and the best under the analytic model.
        baseline_s: period that counts as a reward of 1: all work in balance over all chips.
    """

    def __init__(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        budget: partition.Budget,
        reward: Reward,
        samples: int,
    ) -> None:
        self._evaluator = budget.evaluator if reward == "judge" else None
        if samples:
            budget = dataclasses.replace(budget, evaluations=min(samples, budget.evaluations))
        if self._evaluator is not None:
            # What cannot be beaten under the fast model may be beaten on the evaluator.
            budget = dataclasses.replace(budget, enough_s=0.0)
        self.search = Search(problem, evaluate, budget)
        self.baseline_s = max(float(problem.compute_s.sum()) / problem.num_chips, LEAST_S)
        self._best: partition.Ints | None = None
        self._best_s = float("inf")

    @property
    def best(self) -> partition.Ints | None:
        """The best partition so far, by the evaluator where there is one."""
        return self.search.best if self._evaluator is None else self._best

    @property
    def best_s(self) -> float:
        """The period of `best`; infinite where there is none."""
        return self.search.best_period_s if self._evaluator is None else self._best_s

    def evaluate(self, partitions: partition.Ints) -> partition.Floats:
        """`[B]`, throughput of each of `partitions[B, N]` over that of the baseline."""
        periods = np.full(len(partitions), np.inf)
        found = self.search.periods(partitions)
        periods[: found.size] = self._evaluated(partitions[: found.size], found)
        return relative_throughput(periods, self.baseline_s)

    def offer(self, partitions: partition.Ints) -> None:
        """Takes in partitions that were evaluated before."""
        periods = np.array([self.search.period_of(row) for row in partitions])
        for row, period_s in zip(partitions, periods.tolist(), strict=True):
            self.search.offer(row, period_s)
        self._evaluated(partitions, periods)

    def outcome(self, reason: str) -> partition.Outcome:
        """As `Search.outcome`, with the best by the evaluator in front where there is one."""
        found = self.search.outcome(reason)
        if self._best is None:
            return found
        others = tuple(row for _, row in self.search.kept() if not np.array_equal(row, self._best))
        return partition.Outcome(self._best, found.evaluations, runners_up=others)

    def _evaluated(self, partitions: partition.Ints, periods: partition.Floats) -> partition.Floats:
        runs = np.flatnonzero(np.isfinite(periods))
        if self._evaluator is None or not runs.size:
            return periods
        results = self._evaluator.evaluate(partitions[runs])
        evaluated = np.full(len(partitions), np.inf)
        evaluated[runs] = np.where(results.kind == ResultKind.RUNS, results.period_s, np.inf)
        k = int(evaluated.argmin())
        if evaluated[k] < self._best_s:
            self._best, self._best_s = np.array(partitions[k], np.int32), float(evaluated[k])
        return evaluated

    def begin(self, start: str, rng: np.random.Generator) -> partition.Outcome | None:
        """Gives the run partitions to search around.

        Args:
            start: a strategy whose answer it is, or `known`.
            rng: source of randomness.

        Returns:
            What it ends with where there is nothing to start from, else None.
        """
        search = self.search
        known = search.budget.known
        if start != KNOWN:
            part = search.share(search.left, time_share=0.5)
            # What it spends is not taken from here: the two count their work otherwise.
            strategy = strategy_of(start)
            first = answer_of(start, strategy, search.problem, search.evaluate, rng, part)
            if first.chip_of is None:
                return first
            known = (first.chip_of, *first.runners_up)
        if known:
            self.offer(np.stack(known))
        if self.best is None:
            return self.outcome("no partition that runs is known to start from")
        return None

    def learn(
        self, recipe: Recipe, weights: Weights, rng: np.random.Generator, effort_s: float
    ) -> partition.Outcome:
        """Learns until the budget is spent, around the best partition if there is one by now.

        Args:
            recipe: how.
            weights: that the policy starts from.
            rng: source of randomness.
            effort_s: deterministic seconds after which it ends; 0 for no limit.

        Raises:
            CompileError: MCM-L005 for a graph that is too large.
        """
        steps = recipe.ppo.epochs * recipe.ppo.minibatches
        iterations = self.search.left
        if effort_s:
            iterations = int(effort_s / (STEP_S * steps * self._size()))
        if not self.search.left or not iterations:
            return self.outcome("the budget allows no iteration")
        orders = orders_of_least_span(self.search.problem, graph_features(self.search.problem))
        task = self._task(recipe, self.best, orders[0])
        iterate = _iterations(recipe, weights)
        without_valid = without_improvement = way = 0
        for _ in range(iterations):
            if not self.search.left or without_valid == MOST_WITHOUT_VALID:
                break
            if recipe.patience and (
                without_improvement == recipe.patience or not task.sampler.improvable()
            ):
                without_improvement, way = 0, way + 1
                task = self._next_task(recipe, orders, way, rng)
                iterate = _iterations(recipe, weights)
            best_s = self.best_s
            partitions = iterate(task, rng)
            without_valid = 0 if (partitions[:, 0] >= 0).any() else without_valid + 1
            # Until something runs there is nothing to start anew from.
            if self.best is not None:
                without_improvement = 0 if self.best_s < best_s else without_improvement + 1
        return self._end()

    def draw(
        self, recipe: Recipe, weights: Weights, rng: np.random.Generator, samples: int | None = None
    ) -> partition.Outcome:
        """Draws from a policy as it is until the budget is spent; without JAX.

        Along each of several orders in turn: what one rules out, another may not.

        Args:
            recipe: how.
            weights: of the policy.
            rng: source of randomness.
            samples: most partitions, where the budget allows more.
        """
        if not self.search.left:
            return self.outcome("the budget allows no evaluation")
        goal = self.search.left if samples is None else samples
        orders = orders_of_least_span(self.search.problem, graph_features(self.search.problem))
        # On a chain all of them are the same.
        orders = list({order.tobytes(): order for order in orders}.values())
        ready: list[tuple[Task, PolicyOfGraph]] = []
        without_valid = 0
        for number in count():
            if not self.search.left or not goal or without_valid == MOST_WITHOUT_VALID:
                break
            if number < len(orders):
                task = self._task(recipe, None, orders[number])
                policy = PolicyOfGraph(recipe.layout, weights, task.features, task.prior)
                ready.append((task, policy))
            task, policy = ready[number % len(orders)]
            found = False
            for temperature in TEMPERATURES:
                shots = min(SHOTS, self.search.left, goal)
                if not shots:
                    break
                goal -= shots
                rollouts = task.sampler.draw(rng, policy.decode(rng, shots, temperature))
                rewards_of(self.evaluate, rollouts.partitions)
                found |= bool(rollouts.found.any())
            without_valid = 0 if found else without_valid + 1
        return self._end()

    def _task(self, recipe: Recipe, start: partition.Ints | None, order: partition.Ints) -> Task:
        """The problem along an order, around a start if there is one."""
        return Task.of(
            self.search.problem, recipe, self.evaluate, start, order, lambda: self.best_s
        )

    def _next_task(
        self, recipe: Recipe, orders: list[partition.Ints], way: int, rng: np.random.Generator
    ) -> Task:
        """The problem along another order: `orders` around the best in turn, then random ones.

        Random ones are tried until something better may lie along one, in turn as orders of
        the nodes on each chip of the best partition and as orders of their own.
        """
        best = self.best
        if way < len(orders) or not recipe.improving:
            return self._task(recipe, best, orders[way % len(orders)])
        graph, features = rule_graph(self.search.problem), graph_features(self.search.problem)
        for k, order in enumerate(linear_extensions(graph, streams(rng, RANDOM_ORDERS))):
            start = None if k % 2 else best
            along = order
            if start is not None:
                along = order_of_partition(features, order, start[features.units])
            if may_improve(self.search.problem, features.units[along], self.best_s):
                return self._task(recipe, start, order)
        return self._task(recipe, best, orders[way % len(orders)])

    def _size(self) -> int:
        """Nodes, or more where there are many edges: what an iteration's work grows with."""
        edges = int(self.search.problem.tensor_consumers.size)
        return max(int((~self.search.problem.clonable).sum()), edges // EDGES_PER_NODE, 1)

    def _end(self) -> partition.Outcome:
        drawn = f"none of {self.search.evaluations} partitions of the policy runs"
        return self.outcome(drawn if self.search.evaluations else NOTHING_DRAWN)


def _iterations(
    recipe: Recipe, weights: Weights
) -> Callable[[Task, np.random.Generator], partition.Ints]:
    """Iterations of one policy, each from a task to the partitions that it drew."""
    if not recipe.ppo.learning_rate:
        return FrozenPolicy(recipe, weights).iterate
    # JAX takes a second to load, which only those pay who learn. On one thread its sums are the
    # same on every run.
    use_one_thread()
    require_learning("the strategy", LEARNS_AT, WITHOUT_LEARNING)
    from mcm_passes.families.ring.learning.learner import PolicyLearner

    learner = PolicyLearner(recipe, weights)
    return lambda task, rng: learner.iterate(task, rng).partitions


class _Rewarded:
    """A strategy with a choice of rewards."""

    reward: Reward

    @property
    def asks_evaluator(self) -> bool:
        """True if it asks the evaluator of the budget."""
        return self.reward == "judge"


class _Learning(_Rewarded):
    """A strategy that learns on the problem until the budget is spent."""

    learns: ClassVar[bool] = True
    extra: ClassVar[str] = LEARN

    start: str
    draws: int = 0
    samples: int
    effort_s: float

    def solve(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        rng: np.random.Generator,
        budget: partition.Budget,
    ) -> partition.Outcome:
        """Learns until the budget is spent.

        Raises:
            CompileError: MCM-L001 to MCM-L003 for the checkpoint, MCM-L004 for rewards that are no
                numbers, MCM-L005 for a graph that is too large, MCM-L012 without the extra, and as
                the strategy that it starts from.
        """
        recipe, weights = self._policy()
        run = LearnedRun(problem, evaluate, budget, self.reward, self.samples)
        if self.start and (end := run.begin(self.start, rng)) is not None:
            return end
        if weights is None:
            weights = initial_weights(recipe.layout, int(rng.integers(1 << 31)))
        if self.draws:
            run.draw(recipe, weights, rng, self.draws)
        return run.learn(recipe, weights, rng, self.effort_s)

    def _policy(self) -> tuple[Recipe, Weights | None]:
        """How it learns, and the weights that it begins with; random ones where None."""
        raise NotImplementedError


@dataclass(frozen=True)
@checked(recipe=one_of(RECIPES), draws=at_least(0), samples=at_least(0), effort_s=at_least(0))
class RlFinetune(_Learning):
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

    policy: str = ""
    recipe: str = "default"
    reward: Reward = "fast"
    start: str = ""
    draws: int = 0
    samples: int = 0
    effort_s: float = 0.0

    def _policy(self) -> tuple[Recipe, Weights | None]:
        weights, card = policy_of(self.policy)
        return recipe_of(card, self.recipe), weights


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
    reward: Reward = "fast"
    samples: int = 0

    def solve(
        self,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        rng: np.random.Generator,
        budget: partition.Budget,
    ) -> partition.Outcome:
        """Draws until the budget is spent.

        Raises:
            CompileError: MCM-L001 to MCM-L003 for the checkpoint.
        """
        weights, card = policy_of(self.policy)
        run = LearnedRun(problem, evaluate, budget, self.reward, self.samples)
        return run.draw(recipe_of(card), weights, rng)


@dataclass(frozen=True)
@checked(recipe=one_of(RECIPES), samples=at_least(0), effort_s=at_least(0))
class Rl(_Learning):
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

    recipe: str = "default"
    reward: Reward = "fast"
    start: str = ""
    samples: int = 0
    effort_s: float = 0.0

    def _policy(self) -> tuple[Recipe, Weights | None]:
        return RECIPES[self.recipe], None
