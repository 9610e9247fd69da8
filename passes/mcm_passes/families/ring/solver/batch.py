"""Many rollouts at once: proposals or probabilities in, valid partitions out, on all cores.

`BatchSolver` draws chips of the nodes of a rule graph, `ProblemSampler` whole problems of any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from mcm_compiler.contracts.partition import Bools, Floats, Ints, PartitionProblem
from mcm_compiler.contracts.target import Routing
from mcm_compiler.processes.side_by_side import side_by_side
from mcm_passes.families.ring.solver.adjacent_domains import (
    AdjacentFacts,
    adjacent_facts,
    no_adjacent_facts,
    reach_of_cuts,
    sample_cuts,
)
from mcm_passes.families.ring.solver.monotone_paths import sample_monotone_paths
from mcm_passes.families.ring.solver.random_stream import linear_extensions, random_orders, streams
from mcm_passes.families.ring.solver.relay_domains import RelayFacts, match
from mcm_passes.families.ring.solver.sample_and_fix import Rollouts, Singles, draw_rollouts
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, closure, rule_graph

ROLLOUTS_PER_ORDER = 32
"""Rollouts in a row for which one random order is drawn."""

CHUNKS = 16
"""Parts of the rollouts that cores take in turn, as rollouts differ in length."""


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
    shared: tuple[RelayFacts, AdjacentFacts] | None
    low: Ints
    high: Ints

    @classmethod
    def of(cls, graph: RuleGraph, routing: Routing = "relay") -> BatchSolver:
        """Prepares a solver.

        Raises:
            ValueError: for more than `MAX_CLOSURE_NODES` nodes under the relay rule; sample
                monotone paths instead.
        """
        if routing == "strict":
            found = adjacent_facts(graph)
            if found is None:
                return cls(graph, None, graph.low, graph.high)
            facts, low, high = found
            nothing = np.empty((graph.num_nodes, 0), np.uint64)
            relay = RelayFacts(nothing, nothing, np.empty(0, np.int32))
            return cls(graph, (relay, facts), low, high)
        if graph.num_nodes > MAX_CLOSURE_NODES:
            raise ValueError(f"{graph.num_nodes} nodes, and at most {MAX_CLOSURE_NODES} fit")
        low, high = graph.low, graph.high
        nodes = np.arange(graph.num_nodes, dtype=np.int32)
        matched = np.full(graph.num_chips, -1, np.int32)
        needed = np.arange(graph.num_chips) <= low.max(initial=-1)
        impossible = graph.num_nodes == 0 or bool((low > high).any())
        if impossible or match(nodes, low, high, needed, matched) >= 0:
            return cls(graph, None, low, high)
        relay, adjacent = RelayFacts(*closure(graph), matched), no_adjacent_facts(graph.num_nodes)
        return cls(graph, (relay, adjacent), low, high)

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
                None one is drawn at random for each `ROLLOUTS_PER_ORDER` rollouts in a row.
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
        states = streams(rng, count)
        if self.shared is None:
            return np.full((count, n), -1, np.int32)
        order_of = np.arange(count)
        if orders is None:
            order_of //= ROLLOUTS_PER_ORDER
            orders = random_orders(streams(rng, -(-count // ROLLOUTS_PER_ORDER)), n)
        elif orders.ndim == 1:
            orders, order_of = np.ascontiguousarray(orders)[None], np.zeros_like(order_of)
        if weights is None:
            weights = np.empty((0, n, graph.num_chips), np.float32)
        elif weights.ndim == 2:
            weights = weights[None]
        if domains is None:
            domains = np.empty((0, n, 2), np.int32)
        arrays = (orders, order_of, proposals, weights, states, domains)
        rollouts = Rollouts._make(map(np.ascontiguousarray, arrays))
        found, ends = np.empty((count, n), np.int32), np.linspace(0, count, CHUNKS + 1).astype(int)
        level, first = (graph.after, graph.before), (self.low, self.high)
        kernel = partial(draw_rollouts, level, *self.shared, first, rollouts, found)
        side_by_side(kernel, [some for some in pairwise(ends.tolist()) if some[0] < some[1]])
        return found


_LEAST_WEIGHT = 1e-30
"""In place of a weight of 0, which would forbid what no rule forbids."""

_PINNED = 1e5
"""Penalty, as a logarithm, of a chip that a pin forbids where no weight may be 0."""


@dataclass(frozen=True, eq=False)
class ProblemSampler:
    """Draws valid partitions of a problem under its own rule; memory is left to the evaluation.

    Up to `MAX_CLOSURE_NODES` units with a place of their own are decided in any order by
    `BatchSolver`. In larger problems every `ROLLOUTS_PER_ORDER` rollouts draw a random topological
    order, and the exact samplers along it.

    Attributes:
        problem: the problem.
        graph: its rule graph.
        batch: the solver for problems that are not too large, or None.
    """

    problem: PartitionProblem
    graph: RuleGraph
    batch: BatchSolver | None

    @classmethod
    def of(cls, problem: PartitionProblem) -> ProblemSampler:
        """Prepares a sampler."""
        graph = rule_graph(problem)
        large = graph.num_nodes > MAX_CLOSURE_NODES
        return cls(problem, graph, None if large else BatchSolver.of(graph, problem.routing))

    def sample(self, rng: np.random.Generator, count: int, weights: Singles | None = None) -> Ints:
        """SAMPLE (MCM, algorithm 1).

        Args:
            rng: source of randomness.
            count: B.
            weights: `[N, C]` or `[B, N, C]`, non-negative, with any sum; uniform where None.

        Returns:
            `[B, N]`, chips; a clonable unit is on the first chip that reads it. -1 throughout a
            row where none was found.
        """
        units = self.graph.units
        if weights is not None and units.size < self.problem.num_units:
            weights = np.ascontiguousarray(weights[..., units, :])
        if self.batch is None:
            drawn = self._along_orders(rng, count, weights)
        else:
            drawn = self.batch.sample(rng, count, weights)
        return filled_rows(self.problem, units, drawn)

    def _along_orders(self, rng: np.random.Generator, count: int, weights: Singles | None) -> Ints:
        graph, routing = self.graph, self.problem.routing
        step = ROLLOUTS_PER_ORDER if weights is None or weights.ndim == 2 else 1
        orders = linear_extensions(graph, streams(rng, -(-count // ROLLOUTS_PER_ORDER)))
        drawn = np.empty((count, graph.num_nodes), np.int32)
        allowed = allowed_chips(graph)
        for begin in range(0, count, step):
            rows = slice(begin, min(begin + step, count))
            order = orders[begin // ROLLOUTS_PER_ORDER]
            log_p = np.zeros((graph.num_nodes, graph.num_chips))
            if weights is not None:
                mine = weights if weights.ndim == 2 else weights[begin]
                log_p += np.log(np.maximum(mine, _LEAST_WEIGHT))
            log_p = with_pins(log_p, allowed, routing)[order]
            states = streams(rng, rows.stop - begin)
            if routing == "strict":
                found = sample_cuts(log_p, reach_of_cuts(graph, order), states.size, states)
            else:
                found = sample_monotone_paths(log_p, states.size, states)
            drawn[rows, order] = found
        outside = ((drawn < graph.low) | (drawn > graph.high)).any(axis=1)
        drawn[outside] = -1
        return drawn


def allowed_chips(graph: RuleGraph) -> Bools:
    """`[n, C]`, chips in the domain of each node."""
    chips = np.arange(graph.num_chips)
    return (graph.low[:, None] <= chips) & (chips <= graph.high[:, None])


def with_pins(log_p: Floats, allowed: Bools, routing: Routing) -> Floats:
    """`log_p[n, C]` for the exact samplers along an order, without the chips not `allowed`.

    Those of the strict rule want finite weights, so there a forbidden chip is only made unlikely.
    """
    return np.where(allowed, log_p, log_p - _PINNED if routing == "strict" else -np.inf)


def filled_rows(problem: PartitionProblem, units: Ints, drawn: Ints) -> Ints:
    """Whole partitions `[B, N]` of the chips `drawn[B, n]` of `units`; -1 where one is missing."""
    rows = np.zeros((len(drawn), problem.num_units), np.int32)
    rows[:, units] = drawn
    fill_clonable(problem, rows)
    rows[(drawn < 0).any(axis=1)] = -1
    return rows


def fill_clonable(problem: PartitionProblem, rows: Ints) -> None:
    """Puts each clonable unit on the first chip that reads it, in place; 0 where none does.

    Args:
        problem: the problem.
        rows: `[B, N]`, with all units filled that are not clonable.
    """
    for unit in np.flatnonzero(problem.clonable).tolist():
        users = problem.clone_closure.row(unit)
        if users.size:
            rows[:, unit] = rows[:, users].min(axis=1)
