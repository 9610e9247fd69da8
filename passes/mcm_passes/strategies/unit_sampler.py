"""SAMPLE for whole problems: draws of `chip_of[N]`, whatever the size of the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mcm_compiler.partition import Ints, PartitionProblem
from mcm_passes.partitioning.topological_orders import topological_orders
from mcm_passes.solver.batch import BatchSolver
from mcm_passes.solver.random_stream import streams
from mcm_passes.solver.rule_graph import MAX_CLOSURE_NODES, rule_graph
from mcm_passes.solver.staircase import sample_staircases

Singles = npt.NDArray[np.float32]


class UnitSampler:
    """Draws valid partitions of a problem; memory is left to the evaluation.

    Up to `MAX_CLOSURE_NODES` units by SAMPLE of MCM (algorithm 1) in random node orders; beyond,
    under the relay rule, by exact sampling of staircases along a late order.

    Attributes:
        units: `[n]`, the units with a place of their own, in the order of rows of weights.
        num_chips: C.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        graph = rule_graph(problem)
        self.units = graph.units
        self.num_chips = problem.num_chips
        self._num_units = problem.num_units
        if problem.routing == "strict" or graph.num_nodes <= MAX_CLOSURE_NODES:
            self._draw: Callable[[np.random.Generator, int, Singles | None], Ints] = BatchSolver.of(
                graph, problem.routing
            ).sample
        else:
            node_of = np.full(problem.num_units, -1, np.int64)
            node_of[graph.units] = np.arange(graph.num_nodes)
            late = node_of[topological_orders(problem, 2)[-1].units]
            pinned = problem.pinned_chip[graph.units]
            self._draw = _StaircaseDraw(late, pinned, problem.num_chips).sample

    def draw(
        self, rng: np.random.Generator, count: int, weights: Singles | None = None
    ) -> Ints | None:
        """Draws `[count, N]`, or None where the pins admit no partition.

        Args:
            rng: source of randomness.
            count: B.
            weights: `[B, n, C]`, of each chip for each unit; uniform where None.
        """
        drawn = self._draw(rng, count, weights)
        if drawn.size and int(drawn[0, 0]) < 0:
            return None
        rows = np.zeros((count, self._num_units), np.int32)
        rows[:, self.units] = drawn
        return rows


class _StaircaseDraw:
    def __init__(self, order: npt.NDArray[np.int64], pinned: Ints, num_chips: int) -> None:
        self._order = order
        self._allowed = np.zeros((order.size, num_chips))
        at = pinned[order]
        held = np.flatnonzero(at >= 0)
        self._allowed[held] = -np.inf
        self._allowed[held, at[held]] = 0.0

    def sample(self, rng: np.random.Generator, count: int, weights: Singles | None) -> Ints:
        drawn = np.empty((count, self._order.size), np.int32)
        if weights is None:
            drawn[:, self._order] = sample_staircases(self._allowed, count, streams(rng, count))
            return drawn
        for b in range(count):
            # A weight of zero would forbid what no rule forbids.
            log_p = np.log(np.maximum(weights[b][self._order], 1e-30)) + self._allowed
            drawn[b, self._order] = sample_staircases(log_p, 1, streams(rng, 1))[0]
        return drawn
