"""Orders of units, windows along them, and partitions that a policy draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_models.policy.features import GraphFeatures, Singles
from mcm_models.policy.network import Decoded
from mcm_passes.families.ring.contiguous.contiguous_kernels import window_limits
from mcm_passes.families.ring.contiguous.contiguous_windows import Windows, windows_along
from mcm_passes.families.ring.learning.recipes import Recipe
from mcm_passes.families.ring.solver import adjacent_domains
from mcm_passes.families.ring.solver.batch import BatchSolver, allowed_chips, filled_rows, with_pins
from mcm_passes.families.ring.solver.monotone_paths import (
    fewest_windows,
    monotone_path_marginals,
    sample_monotone_paths,
    sample_windowed,
)
from mcm_passes.families.ring.solver.random_stream import streams
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, rule_graph
from mcm_passes.mapping.problem.topological_orders import topological_orders

ORDERS = 3
"""Orders of `topological_orders` that are compared with the late one: given, late, depth-first."""


def orders_of_least_span(problem: PartitionProblem, features: GraphFeatures) -> list[Ints]:
    """Several topological orders `[n]`, first the one along which tensors travel least (ours).

    Of a tensor counts its size times the share of all load between its producer and its last
    reader: about the chips that it has to cross. What an order rules out no learning finds, and by
    this sum alone the right order was chosen on all graphs that we compared. Under the strict
    rule, where what crosses a cut must be read before the next one, the largest load that is kept
    together so counts first.
    """
    index = np.full(problem.num_units, -1, np.int32)
    index[features.units] = np.arange(features.num_nodes)
    orders = [features.late_order]
    orders += [index[order.units] for order in topological_orders(problem, ORDERS)]
    graph = rule_graph(problem) if problem.routing == "strict" else None

    def badness(k: int) -> tuple[float, float]:
        share = share_before(problem, features, orders[k])
        together = 0.0 if graph is None else _most_together(graph, orders[k], share)
        return together, _bytes_on_the_way(problem, features, share)

    return [orders[k] for k in sorted(range(len(orders)), key=badness)]


def order_of_partition(features: GraphFeatures, order: Ints, chips: Ints) -> Ints:
    """`[n]`, a topological order along which the chips of a partition never fall.

    Args:
        features: of the graph.
        order: `[n]`, topological order of the nodes on each chip.
        chips: `[n]`, chip of each node in a valid partition.
    """
    position = np.empty(chips.size, np.int32)
    position[order] = np.arange(chips.size)
    return np.lexsort((position, chips)).astype(np.int32)


def share_before(problem: PartitionProblem, features: GraphFeatures, order: Ints) -> Floats:
    """`[n]`, share of all load before the middle of each node along an order.

    The load of a node is its share of all work, or of the package's memory where that is more: a
    table that fills a chip leaves no space there for work. A weight is divided among its users.
    """
    work = problem.compute_s[features.units] / max(float(problem.compute_s.sum()), 1e-30)
    users = np.diff(problem.weight_ptr)
    held = np.repeat(problem.weight_bytes / np.maximum(users, 1), users)
    memory = np.bincount(problem.weight_users, held, problem.num_units)[features.units]
    load = np.maximum(work, memory / sum(problem.limits.sram_bytes))
    share = np.empty(load.size)
    share[order] = np.cumsum(load[order]) - 0.5 * load[order]
    return share / max(float(load.sum()), 1e-30)


def _most_together(graph: RuleGraph, order: Ints, share: Floats) -> float:
    """The largest share of load between a cut and the first one that may follow it."""
    before = np.append(share[order], 1.0)
    reach = adjacent_domains.reach_of_cuts(graph, order)
    return float((before[reach] - before).max())


def _bytes_on_the_way(problem: PartitionProblem, features: GraphFeatures, share: Floats) -> float:
    place = np.zeros(problem.num_units)
    place[features.units] = share
    tensor = np.repeat(np.arange(problem.tensor_bytes.size), np.diff(problem.tensor_ptr))
    last = np.zeros(problem.tensor_bytes.size)
    np.maximum.at(last, tensor, place[problem.tensor_consumers])
    producer = np.maximum(problem.tensor_producer, 0)
    # What the host or a clone makes does not travel.
    travels = (problem.tensor_producer >= 0) & ~problem.clonable[producer]
    way = np.maximum(last - place[producer], 0.0)
    return float((problem.tensor_bytes * way)[travels].sum())


RELAXED = (1.0 - 1e-6, 1.02, 1.1)
"""Multiples of the best period that are tried in turn, until some monotone path keeps them: where
an order holds nothing better, what is nearly as good may lead to one that does."""


@dataclass(frozen=True, eq=False)
class ImprovingWindows:
    """The objective as a constraint of the sampler (ours).

    In constraint solvers a solution tightens what is searched next. Here the best period so far,
    with the memory of the chips, limits the window of positions that a chip may hold. It does so by
    the window's work, its weights and what it passes on, never by more than the roofline counts. No
    better partition along the order is thus ruled out. The policy decides which of the rest is
    drawn.

    Attributes:
        windows: of the problem along the order, without live activations.
        best_s: the best period so far, infinite where there is none.
    """

    windows: Windows
    best_s: Callable[[], float]

    @classmethod
    def of(
        cls, problem: PartitionProblem, order: Ints, best_s: Callable[[], float]
    ) -> ImprovingWindows:
        """Prepares the limits along `order[n]`, all units that are not clonable."""
        return cls(windows_along(problem, order, count_live=False), best_s)

    def improvable(self) -> bool:
        """Return whether anything along the order may be better than the best so far."""
        earliest, possible = window_limits(self.windows, self.best_s() * RELAXED[0])
        return fewest_windows(earliest, possible) <= self.windows.chips.sram_bytes.size

    def draw(self, log_p: Floats, streams: np.ndarray) -> tuple[Ints, Floats]:
        """Exact draws and the marginals of their distribution.

        Args:
            log_p: `[n, C]` by position, as for `sample_windowed`.
            streams: `[R]`, states of random streams.

        Returns:
            `[R, n]` chips by position and `[n, C]` log-marginals, of the smallest of `RELAXED`
            that leaves any monotone path; without limits where none does.
        """
        best_s = self.best_s()
        for multiple in RELAXED:
            earliest, possible = window_limits(self.windows, best_s * multiple)
            drawn, marginals = sample_windowed(log_p, earliest, possible, streams.size, streams)
            if drawn[0, 0] >= 0:
                return drawn, marginals
        return sample_monotone_paths(log_p, streams.size, streams), monotone_path_marginals(log_p)


def may_improve(problem: PartitionProblem, order: Ints, best_s: float) -> bool:
    """Return whether a partition along `order[n]` may have a shorter period than `best_s`."""
    return ImprovingWindows.of(problem, order, lambda: best_s).improvable()


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
        """Return whether it can still draw better than the best so far, as far as it knows."""
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
        reach = (
            adjacent_domains.reach_of_cuts(graph, order) if problem.routing == "strict" else None
        )
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
        """Return whether a monotone path along the order may be better."""
        return self.improving is None or self.improving.improvable()

    def _drawn(self, along: Floats, states: np.ndarray) -> tuple[Ints, Floats]:
        weights = with_pins(along, self.allowed[self.order], self.problem.routing)
        if self.improving is not None:
            return self.improving.draw(weights, states)
        if self.reach is None:
            return sample_monotone_paths(weights, states.size, states), monotone_path_marginals(
                weights
            )
        drawn = adjacent_domains.sample_cuts(weights, self.reach, states.size, states)
        return drawn, adjacent_domains.cut_marginals(weights, self.reach)


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
