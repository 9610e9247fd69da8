"""One run of a learned strategy: a policy, a task, and the budget of a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import numpy as np

from mcm_compiler.components.extras import require_learning
from mcm_compiler.contracts import partition
from mcm_compiler.contracts.evaluation import BatchEvaluator, ResultKind
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_models.policy.features import EDGES_PER_NODE, graph_features
from mcm_models.policy.layout import POLICIES, SHIPPED_POLICY, PolicyCard, Weights
from mcm_models.policy.network import PolicyOfGraph
from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe, Sampler, transferring
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
from mcm_passes.families.ring.solver.linear_extensions import linear_extensions
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.families.ring.strategies.local_search import KNOWN, NOTHING_DRAWN
from mcm_passes.mapping.problem.rule_graph import rule_graph
from mcm_passes.mapping.search.named import LEARNS_AT, WITHOUT_LEARNING, answer_of, strategy_of
from mcm_passes.mapping.search.search import Search

Reward = Literal["fast", "judge"]
"""Reward of a policy: the analytic model (MCM, section 5.2), or the simulator in place of
hardware (MCM, section 5.3)."""


class SearchRewards:
    """Implements `rewards.Rewards`, and keeps the best by the same measure.

    Every partition is evaluated under the roofline, which counts; those that run there are shown
    to the evaluator where there is one. What the budget no longer allows earns nothing.

    Args:
        search: the budget, and the best under the analytic model.
        evaluator: the simulator, or None for the analytic model's periods.

    Attributes:
        baseline_s: period that counts as a reward of 1: all work in balance over all chips.
    """

    def __init__(self, search: Search, evaluator: BatchEvaluator | None) -> None:
        problem = search.problem
        self.baseline_s = max(float(problem.compute_s.sum()) / problem.num_chips, LEAST_S)
        self._search = search
        self._evaluator = evaluator
        self._best: partition.Ints | None = None
        self._best_s = float("inf")

    @property
    def best(self) -> partition.Ints | None:
        """The best partition so far, by the evaluator where there is one."""
        return self._search.best if self._evaluator is None else self._best

    @property
    def best_s(self) -> float:
        """The period of `best`; infinite where there is none."""
        return self._search.best_period_s if self._evaluator is None else self._best_s

    def evaluate(self, partitions: partition.Ints) -> partition.Floats:
        """`[B]`, throughput of each of `partitions[B, N]` over that of the baseline."""
        periods = np.full(len(partitions), np.inf)
        found = self._search.periods(partitions)
        periods[: found.size] = self._evaluated(partitions[: found.size], found)
        return relative_throughput(periods, self.baseline_s)

    def offer(self, partitions: partition.Ints) -> None:
        """Takes in partitions that were evaluated before."""
        periods = np.array([self._search.period_of(row) for row in partitions])
        for row, period_s in zip(partitions, periods.tolist(), strict=True):
            self._search.offer(row, period_s)
        self._evaluated(partitions, periods)

    def outcome(self, reason: str) -> partition.Outcome:
        """As `Search.outcome`, with the best by the evaluator in front where there is one."""
        found = self._search.outcome(reason)
        if self._best is None:
            return found
        others = tuple(row for _, row in self._search.kept() if not np.array_equal(row, self._best))
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
    recipe = transferring(RECIPES[name])
    return dataclasses.replace(
        recipe, layout=card.layout, prior=card.prior, sampler=_sampler_of(card)
    )


@dataclass(frozen=True, eq=False)
class LearnedRun:
    """The search, and what earns rewards in it.

    Attributes:
        problem: what is to be placed.
        budget: of this run.
        search: how much of it is left, and the best under the analytic model.
        rewards: of partitions.
    """

    problem: partition.PartitionProblem
    budget: partition.Budget
    search: Search
    rewards: SearchRewards

    @classmethod
    def of(
        cls,
        problem: partition.PartitionProblem,
        evaluate: partition.Evaluate,
        budget: partition.Budget,
        reward: Reward,
        samples: int,
    ) -> LearnedRun:
        """Begins a run; `samples` as the option, 0 for all that the budget allows."""
        evaluator = budget.evaluator if reward == "judge" else None
        if samples:
            budget = dataclasses.replace(budget, evaluations=min(samples, budget.evaluations))
        if evaluator is not None:
            # What cannot be beaten under the fast model may be beaten on the evaluator.
            budget = dataclasses.replace(budget, enough_s=0.0)
        search = Search(problem, evaluate, budget)
        return cls(problem, budget, search, SearchRewards(search, evaluator))

    def begin(
        self, start: str, evaluate: partition.Evaluate, rng: np.random.Generator
    ) -> partition.Outcome | None:
        """Gives the run partitions to search around.

        Args:
            start: a strategy whose answer it is, or `known`.
            evaluate: of the problem.
            rng: source of randomness.

        Returns:
            What it ends with where there is nothing to start from, else None.
        """
        known = self.budget.known
        if start != KNOWN:
            part = self.search.share(self.search.left, time_share=0.5)
            # What it spends is not taken from here: the two count their work otherwise.
            first = answer_of(start, strategy_of(start), self.problem, evaluate, rng, part)
            if first.chip_of is None:
                return first
            known = (first.chip_of, *first.runners_up)
        if known:
            self.rewards.offer(np.stack(known))
        if self.rewards.best is None:
            return self.rewards.outcome("no partition that runs is known to start from")
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
            return self.rewards.outcome("the budget allows no iteration")
        orders = orders_of_least_span(self.problem, graph_features(self.problem))
        task = self._task(recipe, self.rewards.best, orders[0])
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
            best_s = self.rewards.best_s
            partitions = iterate(task, rng)
            without_valid = 0 if (partitions[:, 0] >= 0).any() else without_valid + 1
            # Until something runs there is nothing to start anew from.
            if self.rewards.best is not None:
                without_improvement = 0 if self.rewards.best_s < best_s else without_improvement + 1
        return self._outcome()

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
            return self.rewards.outcome("the budget allows no evaluation")
        goal = self.search.left if samples is None else samples
        orders = orders_of_least_span(self.problem, graph_features(self.problem))
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
                rewards_of(self.rewards, rollouts.partitions)
                found |= bool(rollouts.found.any())
            without_valid = 0 if found else without_valid + 1
        return self._outcome()

    def _task(self, recipe: Recipe, start: partition.Ints | None, order: partition.Ints) -> Task:
        """The problem along an order, around a start if there is one."""
        return Task.of(
            self.problem, recipe, self.rewards, start, order, lambda: self.rewards.best_s
        )

    def _next_task(
        self, recipe: Recipe, orders: list[partition.Ints], way: int, rng: np.random.Generator
    ) -> Task:
        """The problem along another order: `orders` around the best in turn, then random ones.

        Random ones are tried until something better may lie along one, in turn as orders of
        the nodes on each chip of the best partition and as orders of their own.
        """
        best = self.rewards.best
        if way < len(orders) or not recipe.improving:
            return self._task(recipe, best, orders[way % len(orders)])
        graph, features = rule_graph(self.problem), graph_features(self.problem)
        for k, order in enumerate(linear_extensions(graph, streams(rng, RANDOM_ORDERS))):
            start = None if k % 2 else best
            along = order
            if start is not None:
                along = order_of_partition(features, order, start[features.units])
            if may_improve(self.problem, features.units[along], self.rewards.best_s):
                return self._task(recipe, start, order)
        return self._task(recipe, best, orders[way % len(orders)])

    def _size(self) -> int:
        """Nodes, or more where there are many edges: what an iteration's work grows with."""
        edges = int(self.problem.tensor_consumers.size)
        return max(int((~self.problem.clonable).sum()), edges // EDGES_PER_NODE, 1)

    def _outcome(self) -> partition.Outcome:
        if not self.search.evaluations:
            return self.rewards.outcome(NOTHING_DRAWN)
        return self.rewards.outcome(
            f"none of {self.search.evaluations} partitions of the policy runs"
        )


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


def _sampler_of(card: PolicyCard) -> Sampler:
    return "engine" if card.sampler == "engine" else "staircase"
