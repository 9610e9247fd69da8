"""SAMPLE and FIX for whole problems, whatever the size: `chip_of[B, N]` with all units filled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import Bools, Floats, Ints, PartitionProblem
from mcm_compiler.contracts.target import Routing
from mcm_passes.families.ring.solver.adjacent_domains import reach_of_cuts, sample_cuts
from mcm_passes.families.ring.solver.batch import ROLLOUTS_PER_ORDER, BatchSolver
from mcm_passes.families.ring.solver.linear_extensions import linear_extensions
from mcm_passes.families.ring.solver.monotone_paths import sample_monotone_paths
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.families.ring.solver.sample_and_fix import Singles
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, rule_graph

_LEAST_WEIGHT = 1e-30
"""In place of a weight of 0, which would forbid what no rule forbids."""

_KEPT = 25.0
"""Logarithm of the weight of a proposed chip along an order, over that of any other."""

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
        note: what limits the partitions that can be drawn, in a sentence, or empty.
    """

    problem: PartitionProblem
    graph: RuleGraph
    batch: BatchSolver | None
    note: str

    @classmethod
    def of(cls, problem: PartitionProblem) -> ProblemSampler:
        """Prepares a sampler."""
        graph = rule_graph(problem)
        if graph.num_nodes > MAX_CLOSURE_NODES:
            return cls(problem, graph, None, "")
        batch = BatchSolver.of(graph, problem.routing)
        note = ""
        if batch.max_chips == 0:
            note = f"no partition keeps the pins and the {problem.routing} rule"
            if problem.routing == "strict":
                note += " with dependencies that span at most one chip"
        elif problem.routing == "strict" and batch.max_chips < problem.num_chips:
            note = (
                f"with dependencies that span at most one chip, partitions reach "
                f"{batch.max_chips} of {problem.num_chips} chips"
            )
        return cls(problem, graph, batch, note)

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
        return self._draw(rng, count, None, weights)

    def fix(
        self, rng: np.random.Generator, proposals: Ints, weights: Singles | None = None
    ) -> Ints:
        """FIX (MCM, algorithm 2); in large problems the proposed chips get most of the weight.

        Args:
            rng: source of randomness.
            proposals: `[B, N]`, a chip for each unit.
            weights: as for `sample`.

        Returns:
            As `sample`.
        """
        return self._draw(rng, len(proposals), proposals, weights)

    def _draw(
        self, rng: np.random.Generator, count: int, proposals: Ints | None, weights: Singles | None
    ) -> Ints:
        units = self.graph.units
        wanted = None if proposals is None else np.ascontiguousarray(proposals[:, units])
        mine = weights
        if weights is not None and units.size < self.problem.num_units:
            mine = np.ascontiguousarray(weights[..., units, :])
        if self.batch is None:
            drawn = self._along_orders(rng, count, wanted, mine)
        elif wanted is None:
            drawn = self.batch.sample(rng, count, mine)
        else:
            drawn = self.batch.fix(rng, wanted, mine)
        return filled_rows(self.problem, units, drawn)

    def _along_orders(
        self, rng: np.random.Generator, count: int, wanted: Ints | None, weights: Singles | None
    ) -> Ints:
        graph, routing = self.graph, self.problem.routing
        shared = wanted is None and (weights is None or weights.ndim == 2)
        step = ROLLOUTS_PER_ORDER if shared else 1
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
            if wanted is not None:
                held = (wanted[begin] >= 0) & (wanted[begin] < graph.num_chips)
                log_p[np.flatnonzero(held), wanted[begin][held]] += _KEPT
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
