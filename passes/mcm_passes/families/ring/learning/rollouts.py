"""From a policy's probabilities to valid partitions, and how each decision came about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_models.policy.features import GraphFeatures, Singles
from mcm_models.policy.inference import Decoded
from mcm_passes.families.ring.learning.improving_windows import ImprovingWindows
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.solver.adjacent_domains import (
    cut_marginals,
    reach_of_cuts,
    sample_cuts,
)
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.families.ring.solver.monotone_paths import (
    monotone_path_marginals,
    sample_monotone_paths,
)
from mcm_passes.families.ring.solver.problem_sampling import allowed_chips, filled_rows, with_pins
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, rule_graph

FORBIDDEN = np.float32(-1e9)
"""`log_base` of a chip that could not be chosen; finite, so that gradients stay finite."""

_LEAST = 1e-30
"""In place of a probability of 0, which would forbid what no rule forbids."""


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Valid partitions of one iteration.

    Attributes:
        partitions: `[R, N]`, all units filled; rows of -1 where none was found.
        actions: `[R, n]`, the chip whose likelihood is learned of each node; 0 where none was
            found.
        log_base: `[R, n, C]`, or `[1, n, C]` for all: see `mcm_models.policy.ppo`.
    """

    partitions: Ints
    actions: Ints
    log_base: Singles

    @property
    def found(self) -> Bools:
        """`[R]`, whether there is a partition."""
        return self.partitions[:, 0] >= 0


class Sampler(Protocol):
    """Makes valid partitions of what a policy proposes."""

    def draw(self, rng: np.random.Generator, decoded: Decoded) -> Rollouts: ...

    def improvable(self) -> bool:
        """Whether it can still draw what is better than the best so far, as far as it knows."""
        ...


@dataclass(frozen=True, eq=False)
class OrderSampler:
    """Draws whole partitions from `p(f | f is valid)` along one topological order (ours).

    The proposals play no part: only the probabilities do. Under the relay rule the partitions are
    the monotone paths along the order, under the strict rule those in which every dependency spans
    at most one chip.

    Attributes:
        problem: the problem.
        order: `[n]`, node at each position.
        units: `[n]`, unit of each node.
        allowed: `[n, C]`, chips that the user's pins leave each node.
        reach: from `reach_of_cuts` under the strict rule, else None.
        improving: what is left out because nothing better than the best known can come of it;
            None where nothing is.
    """

    problem: PartitionProblem
    order: Ints
    units: Ints
    allowed: Bools
    reach: Longs | None
    improving: ImprovingWindows | None = None

    @classmethod
    def of(
        cls,
        graph: RuleGraph,
        problem: PartitionProblem,
        order: Ints,
        best_s: Callable[[], float] | None = None,
    ) -> OrderSampler:
        """Prepares a sampler along `order[n]`.

        Args:
            graph: of the problem.
            problem: the problem.
            order: topological order of the nodes.
            best_s: the best period so far, infinite where there is none; None to draw what cannot
                be better, too. The strict rule has no sampler of windows.
        """
        reach = reach_of_cuts(graph, order) if problem.routing == "strict" else None
        improving = None
        if best_s is not None and reach is None:
            improving = ImprovingWindows.of(problem, graph.units[order], best_s)
        return cls(problem, order, graph.units, allowed_chips(graph), reach, improving)

    def draw(self, rng: np.random.Generator, decoded: Decoded) -> Rollouts:
        """Exact draws, and as `log_base` the marginals over the policy's probabilities."""
        order, count = self.order, len(decoded.proposals)
        log_p = np.log(np.maximum(decoded.probabilities, _LEAST)).astype(np.float64)
        tables = log_p[None] if log_p.ndim == 2 else log_p
        rows = count // len(tables)
        actions = np.empty((count, order.size), np.int32)
        log_base = np.empty(tables.shape, np.float32)
        for k, table in enumerate(tables):
            drawn, marginals = self._drawn(table[order], streams(rng, rows))
            actions[k * rows : (k + 1) * rows, order] = drawn
            log_base[k, order] = np.maximum(marginals - table[order], FORBIDDEN)
        inside = self.allowed[np.arange(order.size), np.maximum(actions, 0)]
        actions[~(inside & (actions >= 0)).all(axis=1)] = -1
        partitions = filled_rows(self.problem, self.units, actions)
        return Rollouts(partitions, np.maximum(actions, 0), log_base)

    def improvable(self) -> bool:
        """Whether some monotone path along the order may be better; True if nothing is left out."""
        return self.improving is None or self.improving.improvable()

    def _drawn(self, along: Floats, states: np.ndarray) -> tuple[Ints, Floats]:
        weights = with_pins(along, self.allowed[self.order], self.problem.routing)
        if self.improving is not None:
            return self.improving.draw(weights, states)
        if self.reach is None:
            return sample_monotone_paths(weights, states.size, states), monotone_path_marginals(
                weights
            )
        drawn = sample_cuts(weights, self.reach, states.size, states)
        return drawn, cut_marginals(weights, self.reach)


@dataclass(frozen=True, eq=False)
class EngineSampler:
    """MCM's solver (section 4.2, algorithms 1 and 2): decides node after node, in random orders.

    Attributes:
        problem: the problem.
        units: `[n]`, unit of each node.
        solver: the engine.
        recipe: mode and gradient.
    """

    problem: PartitionProblem
    units: Ints
    solver: BatchSolver
    recipe: Recipe

    def draw(self, rng: np.random.Generator, decoded: Decoded) -> Rollouts:
        """SAMPLE or FIX, with the domains at the time of each decision as `log_base`."""
        count, n = decoded.proposals.shape
        chips = np.arange(decoded.probabilities.shape[-1], dtype=np.int32)
        # Nothing is decided where the domains admit nothing.
        domains = np.zeros((count, n, 2), np.int32)
        if self.recipe.mode == "fix":
            drawn = self.solver.fix(rng, decoded.proposals, decoded.probabilities, None, domains)
        else:
            drawn = self.solver.sample(rng, count, decoded.probabilities, None, domains)
        partitions = filled_rows(self.problem, self.units, drawn)
        if self.recipe.gradient == "proposed":
            return Rollouts(partitions, decoded.proposals, np.zeros((1, n, chips.size), np.float32))
        inside = (domains[..., :1] <= chips) & (chips <= domains[..., 1:])
        log_base = np.where(inside, np.float32(0), FORBIDDEN)
        return Rollouts(partitions, np.maximum(drawn, 0), log_base)

    def improvable(self) -> bool:
        """True: in random node orders nothing is ruled out."""
        return True


def sampler_of(
    problem: PartitionProblem,
    features: GraphFeatures,
    recipe: Recipe,
    order: Ints,
    best_s: Callable[[], float] | None = None,
) -> Sampler:
    """The sampler that a recipe asks for; what is too large for the engine goes along an order.

    Args:
        problem: the problem.
        features: its graph.
        recipe: which sampler.
        order: `[n]`, topological order of the nodes, for samplers that go along one.
        best_s: the best period so far, where the search has one; see `OrderSampler.of`.
    """
    graph = rule_graph(problem)
    if recipe.sampler == "engine" and graph.num_nodes <= MAX_CLOSURE_NODES:
        solver = BatchSolver.of(graph, problem.routing)
        return EngineSampler(problem, features.units, solver, recipe)
    return OrderSampler.of(graph, problem, order, best_s if recipe.improving else None)
