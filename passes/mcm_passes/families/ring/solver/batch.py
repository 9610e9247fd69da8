"""Many rollouts at once: proposals or probabilities in, valid partitions out, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from mcm_compiler.contracts.partition import Ints, Longs
from mcm_compiler.contracts.target import Routing
from mcm_passes.families.ring.solver import adjacent_domains
from mcm_passes.families.ring.solver.lanes import LANES, Domains, Singles, narrow, widen
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.families.ring.solver.relay_domains import RelayFacts, match
from mcm_passes.families.ring.solver.sample_and_fix import Rollouts, solve_adjacent, solve_relay
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, closure

_CHUNKS_PER_THREAD = 4
"""Groups of rollouts differ in length; more chunks than threads even that out."""


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
        max_chips: most chips that a partition can use; under `strict` dependencies that are read
            far away can leave it far below the chips of the package. 0 where there is none.
    """

    graph: RuleGraph
    shared: RelayFacts | adjacent_domains.AdjacentFacts | None
    low: Ints
    high: Ints
    max_chips: int

    @classmethod
    def of(cls, graph: RuleGraph, routing: Routing = "relay") -> BatchSolver:
        """Prepares a solver.

        Raises:
            ValueError: for more than `MAX_CLOSURE_NODES` nodes under the relay rule; sample
                monotone paths instead.
        """
        if routing == "strict":
            found = adjacent_domains.adjacent_facts(graph)
            if found is None:
                return cls(graph, None, graph.low, graph.high, 0)
            facts, (low, high) = found
            return cls(graph, facts, widen(low), widen(high), int(high.max()) + 1)
        if graph.num_nodes > MAX_CLOSURE_NODES:
            raise ValueError(f"{graph.num_nodes} nodes, and at most {MAX_CLOSURE_NODES} fit")
        low, high = graph.low, graph.high
        nodes = np.arange(graph.num_nodes, dtype=np.int32)
        matched = np.full(graph.num_chips, -1, np.int32)
        needed = np.arange(graph.num_chips) <= low.max(initial=-1)
        impossible = graph.num_nodes == 0 or bool((low > high).any())
        if impossible or match(nodes, low, high, needed, matched) >= 0:
            return cls(graph, None, low, high, 0)
        alone = match(nodes, low, high, np.ones_like(needed), np.empty_like(matched))
        max_chips = graph.num_chips if alone < 0 else alone
        return cls(graph, RelayFacts(*closure(graph), matched), low, high, max_chips)

    def sample(
        self,
        rng: np.random.Generator,
        count: int,
        weights: Singles | None = None,
        orders: Ints | None = None,
        domains: Ints | None = None,
    ) -> Ints:
        """SAMPLE: each node in turn draws a chip of its domain.

        Args:
            rng: source of randomness.
            count: B, rollouts.
            weights: `[B, n, C]`, or `[n, C]` for the same in all rollouts; uniform where None.
                Non-negative; need not be normalised.
            orders: order in which nodes are decided: `[n]` for all rollouts, or `[B, n]`; where
                None one is drawn at random for each `LANES` rollouts in a row. Rollouts in a row
                with the same order are solved together and much faster.
            domains: `[B, n, 2]` to be filled with the lowest and the highest chip that each node
                could go to when it was decided, equal where it was forced.

        Returns:
            `[B, n]`, chip of each node; -1 throughout where none was found.
        """
        nothing = np.empty((0, self.graph.num_nodes), np.int32)
        return self._solve(rng, count, nothing, weights, orders, domains)

    def fix(
        self,
        rng: np.random.Generator,
        proposals: Ints,
        weights: Singles | None = None,
        orders: Ints | None = None,
        domains: Ints | None = None,
    ) -> Ints:
        """FIX: keeps the proposed chips where the domains allow, and samples the rest.

        Args:
            rng: source of randomness.
            proposals: `[B, n]`, a chip for each node.
            weights: as for `sample`.
            orders: as for `sample`.
            domains: as for `sample`.

        Returns:
            As `sample`.
        """
        return self._solve(rng, len(proposals), proposals, weights, orders, domains)

    def _solve(
        self,
        rng: np.random.Generator,
        count: int,
        proposals: Ints,
        weights: Singles | None,
        orders: Ints | None,
        domains: Ints | None,
    ) -> Ints:
        graph, n = self.graph, self.graph.num_nodes
        rollouts = streams(rng, count)
        if self.shared is None:
            return np.full((count, n), -1, np.int32)
        if weights is None:
            weights = np.empty((0, n, graph.num_chips), np.float32)
        elif weights.ndim == 2:
            weights = weights[None]
        groups = _groups(count, orders)
        if orders is None:
            orders = np.empty((0, n), np.int32)
        elif orders.ndim == 1:
            orders = orders[None]
        else:
            orders = orders[groups[:-1]]
        ordering = streams(rng, groups.size - 1)
        kernel = self._kernel()
        nothing_kept = np.empty((0, n, 2), np.int32)

        def part(first: int, last: int) -> Ints:
            begin, end = int(groups[first]), int(groups[last])
            return kernel(
                Rollouts(
                    groups[first : last + 1] - begin,
                    np.ascontiguousarray(orders if len(orders) < 2 else orders[first:last]),
                    ordering[first:last],
                    np.ascontiguousarray(proposals[begin:end]),
                    np.ascontiguousarray(weights if len(weights) < 2 else weights[begin:end]),
                    rollouts[begin:end],
                    nothing_kept if domains is None else domains[begin:end],
                )
            )

        return np.concatenate([np.empty((0, n), np.int32), *_in_threads(part, groups.size - 1)])

    def _kernel(self) -> Callable[[Rollouts], Ints]:
        graph, facts = self.graph, self.shared
        first = Domains(narrow(self.low, graph.num_chips), narrow(self.high, graph.num_chips))
        if isinstance(facts, adjacent_domains.AdjacentFacts):
            return partial(solve_adjacent, adjacent_domains.edges_of(graph), facts, first)
        assert facts is not None
        return partial(solve_relay, adjacent_domains.edges_of(graph), facts, first)


def _groups(count: int, orders: Ints | None) -> Longs:
    """`[G + 1]`, where each group begins: at most `LANES` rollouts in a row with one order."""
    starts = np.zeros(count, np.bool_)
    starts[::LANES] = True
    if orders is not None and orders.ndim == 2 and count:
        differs = (orders[1:] != orders[:-1]).any(axis=1)
        since = np.zeros(count, np.int64)
        since[1:] = np.where(differs, np.arange(1, count), 0)
        since = np.arange(count) - np.maximum.accumulate(since)
        starts = since % LANES == 0
    return np.append(np.flatnonzero(starts), count)


def _in_threads(part: Callable[[int, int], Ints], num_groups: int) -> list[Ints]:
    """`part(first, last)` for all groups, on all cores."""
    threads = min(os.cpu_count() or 1, num_groups)
    if threads < 2:
        return [part(0, num_groups)] if num_groups else []
    chunks = min(num_groups, _CHUNKS_PER_THREAD * threads)
    bounds = np.linspace(0, num_groups, chunks + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(part, bounds[:-1], bounds[1:]))
