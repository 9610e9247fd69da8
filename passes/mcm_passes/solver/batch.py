"""Many rollouts at once: proposals or probabilities in, valid partitions out, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.partition import Ints
from mcm_compiler.target import Routing
from mcm_passes.solver.adjacent_domains import NearGraph, close_domains, near_graph
from mcm_passes.solver.random_stream import streams
from mcm_passes.solver.relay_domains import RelayGraph
from mcm_passes.solver.rule_graph import MAX_CLOSURE_NODES, RuleGraph, closure
from mcm_passes.solver.sample_and_fix import solve_batch, solve_batch_adjacent

Singles = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]


Shared = RelayGraph | NearGraph


@dataclass(frozen=True, eq=False)
class BatchSolver:
    """SAMPLE and FIX of MCM (algorithms 1 and 2).

    Under `strict` the partitions are those where every dependency spans at most one chip; see
    `adjacent_domains.py`. The answer depends on the arguments and the generator alone, not on the
    number of threads.

    Attributes:
        graph: the rule graph.
        shared: what all rollouts share; None where the domains admit nothing.
        low: `[n]`, domains closed under the rule.
        high: `[n]`, likewise.
    """

    graph: RuleGraph
    shared: Shared | None
    low: Ints
    high: Ints

    @classmethod
    def of(cls, graph: RuleGraph, routing: Routing = "relay") -> BatchSolver:
        """Prepares a solver.

        Raises:
            ValueError: for more than `MAX_CLOSURE_NODES` nodes under the relay rule; sample
                staircases instead.
        """
        low, high = graph.low.copy(), graph.high.copy()
        if routing == "strict":
            near = near_graph(graph)
            possible = close_domains(near, low, high)
            return cls(graph, near if possible else None, low, high)
        if graph.num_nodes > MAX_CLOSURE_NODES:
            raise ValueError(f"{graph.num_nodes} nodes, and at most {MAX_CLOSURE_NODES} fit")
        ancestors, descendants = closure(graph)
        shared = RelayGraph(
            graph.next_ptr,
            graph.next_nodes,
            graph.before_ptr,
            graph.before_nodes,
            ancestors,
            descendants,
        )
        return cls(graph, shared, low, high)

    def sample(
        self,
        rng: np.random.Generator,
        count: int,
        weights: Singles | None = None,
        orders: Ints | None = None,
    ) -> Ints:
        """SAMPLE: each node in turn draws a chip of its domain.

        Args:
            rng: source of randomness.
            count: B, rollouts.
            weights: `[B, n, C]`, or `[n, C]` for the same in all rollouts; uniform where None.
                Non-negative; need not be normalised.
            orders: `[B, n]`, order in which nodes are decided; one at random each where None.

        Returns:
            `[B, n]`, chip of each node; -1 throughout where the domains admit nothing.
        """
        nothing = np.empty((0, self.graph.num_nodes), np.int32)
        return self._solve(rng, count, nothing, weights, orders)

    def fix(
        self,
        rng: np.random.Generator,
        proposals: Ints,
        weights: Singles | None = None,
        orders: Ints | None = None,
    ) -> Ints:
        """FIX: keeps the proposed chips where the domains allow, and samples the rest.

        Args:
            rng: source of randomness.
            proposals: `[B, n]`, a chip for each node.
            weights: as for `sample`.
            orders: as for `sample`.

        Returns:
            As `sample`.
        """
        return self._solve(rng, len(proposals), proposals, weights, orders)

    def _solve(
        self,
        rng: np.random.Generator,
        count: int,
        proposals: Ints,
        weights: Singles | None,
        orders: Ints | None,
    ) -> Ints:
        graph, n = self.graph, self.graph.num_nodes
        if weights is None:
            weights = np.empty((0, n, graph.num_chips), np.float32)
        elif weights.ndim == 2:
            weights = weights[None]
        given = np.empty((0, n), np.int32) if orders is None else orders

        shared = self.shared
        if shared is None:
            return np.full((count, n), -1, np.int32)

        def part(begin: int, end: int, states: Words) -> Ints:
            rest = (
                self.low,
                self.high,
                graph.num_chips,
                np.ascontiguousarray(given[begin:end]),
                np.ascontiguousarray(proposals[begin:end]),
                np.ascontiguousarray(weights if len(weights) < 2 else weights[begin:end]),
                states,
            )
            if isinstance(shared, NearGraph):
                return solve_batch_adjacent(shared, *rest)
            return solve_batch(shared, *rest)

        return _in_threads(part, streams(rng, count))


def _in_threads(part: Callable[[int, int, Words], Ints], states: Words) -> Ints:
    """Rows of `part(begin, end, states[begin:end])` for all rollouts, a thread per core."""
    threads = min(os.cpu_count() or 1, max(len(states) // 4, 1))
    if threads == 1:
        return part(0, len(states), states)
    bounds = np.linspace(0, len(states), threads + 1).astype(int).tolist()

    def run(begin: int, end: int) -> Ints:
        return part(begin, end, states[begin:end])

    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(run, bounds[:-1], bounds[1:])))
