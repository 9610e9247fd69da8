"""Repair: from proposed chips to a partition that the ring's rules allow."""

from __future__ import annotations

import heapq

import numpy as np

from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_passes.families.ring.contiguous.contiguous_kernels import greedy_cuts
from mcm_passes.families.ring.contiguous.contiguous_windows import windows_along
from mcm_passes.families.ring.contiguous.greedy import chips_from_cuts
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, rule_graph

ROLLOUTS = 8
"""Orders in which proposals are kept."""


def repaired(problem: PartitionProblem, wanted: Ints, rng: np.random.Generator) -> list[Ints]:
    """Partitions near `wanted[N]` that keep the rules; memory is not looked at by all of them.

    FIX (MCM, algorithm 2) keeps what the rules allow in some orders of the units. Where proposals
    contradict the dataflow, that leaves chips uneven, so there is also the topological order that
    follows the proposal as far as it can, cut by the greedy heuristic.
    """
    graph = rule_graph(problem)
    n = graph.num_nodes
    rows: list[Ints] = []
    if 0 < n <= MAX_CLOSURE_NODES:
        at = np.clip(wanted[graph.units], 0, problem.num_chips - 1).astype(np.int32)
        orders = np.array([rng.permutation(n) for _ in range(ROLLOUTS)], np.int32)
        orders[0], orders[1] = np.arange(n), np.arange(n)[::-1]
        distance = np.abs(np.arange(problem.num_chips)[None, :] - at[:, None])
        found = BatchSolver.of(graph, problem.routing).fix(
            rng,
            np.tile(at, (ROLLOUTS, 1)),
            np.exp(-2.0 * distance).astype(np.float32),
            orders,
        )
        for row in found[found[:, 0] >= 0]:
            chips = np.zeros(problem.num_units, np.int32)
            chips[graph.units] = row
            rows.append(chips)
    order = graph.units[_following(graph, wanted[graph.units])]
    cuts, done = greedy_cuts(windows_along(problem, order))
    if done == n and n:
        rows.append(chips_from_cuts(problem, order, cuts))
    return rows


def _following(graph: RuleGraph, wanted: Ints) -> Ints:
    """The topological order that takes, of the nodes that are ready, the lowest wish first."""
    missing = np.diff(graph.before_ptr).tolist()
    wish = wanted.tolist()
    ready = [(wish[v], v) for v, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, v = heapq.heappop(ready)
        order.append(v)
        for w in graph.next_nodes[graph.next_ptr[v] : graph.next_ptr[v + 1]].tolist():
            missing[w] -= 1
            if missing[w] == 0:
                heapq.heappush(ready, (wish[w], w))
    return np.array(order, np.int32)
