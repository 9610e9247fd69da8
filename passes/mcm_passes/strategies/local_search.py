"""Local search from the best contiguous cuts: moves of units, and new cuts of what they lead to."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.partition import Budget, Evaluate, Ints, Longs, Outcome, PartitionProblem
from mcm_passes.partitioning.fast_periods import FastPeriods
from mcm_passes.partitioning.topological_orders import topological_orders
from mcm_passes.solver.random_stream import streams
from mcm_passes.solver.rule_graph import rule_graph
from mcm_passes.strategies.move_kernels import MoveGraph, Walk, start_walk, take_steps
from mcm_passes.strategies.recut import recut
from mcm_passes.strategies.search import Search
from mcm_passes.strategies.start import find_start

MANY_UNITS = 10_000
"""Units above which only the best walk's order is cut anew, because that takes seconds."""


@dataclass(frozen=True)
class LocalSearch:
    """Walks of late-accepted moves from the solution of `dp`, under the fast model.

    After each round the order that the best partition of each walk implies is cut anew by dynamic
    programming, which shifts all cuts at once; walks that fall behind go on from the best one.

    Attributes:
        walks: independent walks, at least 1.
        round: steps of each walk in a round, at least 1.
        memory: steps that late acceptance looks back, at least 1.
    """

    name: ClassVar[str] = "local_search"
    summary: ClassVar[str] = "moves of units and cuts, from the best contiguous cuts"

    walks: int = 4
    round: int = 500
    memory: int = 500

    def __post_init__(self) -> None:
        for option in ("walks", "round", "memory"):
            if getattr(self, option) < 1:
                raise ValueError(f"{option} is {getattr(self, option)}, not at least 1")

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Searches until the budget is spent; never worse than `dp` at the same budget."""
        search = Search(problem, evaluate, budget)
        reason = find_start(search, evaluate, rng)
        if search.best is not None:
            self.improve(search, rng)
        return search.outcome(reason)

    def improve(self, search: Search, rng: np.random.Generator) -> None:
        """Goes on from the best partition of `search`, as long as its budget lasts."""
        assert search.best is not None, "a start is needed"
        walking = _Walking(search.problem, search.best, self.walks, self.memory, rng)
        while search.left >= self.walks:
            steps = min(self.round, search.left // self.walks)
            for row, period_s in walking.advance(steps):
                search.offer(row, period_s)
            search.spend(steps * self.walks)
            walking.recut(search)


class _Walking:
    """All walks of one search."""

    def __init__(
        self,
        problem: PartitionProblem,
        start: Ints,
        walks: int,
        memory: int,
        rng: np.random.Generator,
    ) -> None:
        self._problem = problem
        self._fast = FastPeriods(problem)
        self._graph = move_graph(problem)
        self._position = _late_position(problem)
        self._rng = rng
        self._reference_s = self._fast(start)
        n = problem.num_units
        self._walks = [
            Walk(
                np.empty(n, np.int32),
                np.empty(n, np.int32),
                np.empty(1),
                np.empty(1),
                np.empty(memory),
                np.zeros(1, np.int64),
                streams(rng, 1),
            )
            for _ in range(walks)
        ]
        for walk in self._walks:
            self._begin(walk, start)

    def _begin(self, walk: Walk, chip_of: Ints) -> None:
        start_walk(self._fast.arrays, self._fast.rules, walk, chip_of, self._reference_s)

    def advance(self, steps: int) -> list[tuple[Ints, float]]:
        """Makes steps of all walks; returns the best partition of each and its period."""

        def run(walk: Walk) -> None:
            arrays, rules = self._fast.arrays, self._fast.rules
            take_steps(arrays, rules, self._graph, walk, self._reference_s, steps)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, self._walks))
        return [(walk.best, float(walk.best_s[0])) for walk in self._walks]

    def recut(self, search: Search) -> None:
        """Cuts anew along the best of walks; the worst walk goes on from the best of all."""
        by_period = sorted(self._walks, key=lambda walk: float(walk.best_s[0]))
        for walk in by_period[: 1 if self._problem.num_units > MANY_UNITS else None]:
            recut(search, self._problem, walk.best, self._position)
        assert search.best is not None, "walks start from a partition"
        worst = max(self._walks, key=lambda walk: float(walk.best_s[0]))
        if search.best_period_s < float(worst.best_s[0]):
            self._begin(worst, search.best)


def move_graph(problem: PartitionProblem) -> MoveGraph:
    """The dependencies between units that are not clonable, by unit."""
    graph = rule_graph(problem)

    def by_unit(ptr: Longs, nodes: Ints) -> tuple[Longs, Ints]:
        counts = np.zeros(problem.num_units, np.int64)
        counts[graph.units] = np.diff(ptr)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), graph.units[nodes]

    return MoveGraph(
        *by_unit(graph.next_ptr, graph.next_nodes), *by_unit(graph.before_ptr, graph.before_nodes)
    )


def _late_position(problem: PartitionProblem) -> Ints:
    order = topological_orders(problem, 2)[-1].units
    position = np.zeros(problem.num_units, np.int32)
    position[order] = np.arange(order.size)
    return position
