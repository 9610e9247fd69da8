"""The graph that general graph partitioners get, and partitions near the parts that they give."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_passes.families.ring.contiguous.contiguous_kernels import chain_windows
from mcm_passes.families.ring.contiguous.contiguous_windows import chips_from_cuts, windows_along
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.problem.rule_graph import MAX_CLOSURE_NODES, RuleGraph, rule_graph

CLIQUE = 8
"""Units that a tensor connects up to which each two of them are neighbours; beyond, all are
neighbours of its producer alone."""

RESOLUTION = 1000
"""Steps from no weight to that of the mean unit, and of the mean edge."""

LARGEST = 1 << 20
"""Cap on one weight, so that sums fit 32 bits where graphs are large."""


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """Units that are not clonable, as nodes.

    Attributes:
        units: `[n]`, the unit of each node, ascending.
        unit_weight: `[n]`, work, at least 1.
        ptr: `[n + 1]`, CSR of neighbours, both ways.
        neighbours: distinct neighbours of each node.
        edge_weight: what it costs to divide them, at least 1.
    """

    units: Ints
    unit_weight: Longs
    ptr: Longs
    neighbours: Longs
    edge_weight: Longs


def weighted_graph(problem: PartitionProblem) -> WeightedGraph:
    """The graph in which a tensor is a clique of its units, or a star where it has many.

    A clique of k units shares the tensor's cost among `k - 1` edges per unit (Alpert and Kahng
    1995, *Recent Directions in Netlist Partitioning*). The cost is its time on a link and that of
    one relay. Weights of the model are not part of the graph.
    """
    units = np.flatnonzero(~problem.clonable).astype(np.int32)
    node_of = np.full(problem.num_units, -1, np.int64)
    node_of[units] = np.arange(units.size)
    cost = problem.tensor_bytes / problem.limits.link_bytes_per_s + problem.relay_s
    rows: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    columns: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    prices: list[npt.NDArray[np.float64]] = [np.zeros(0)]
    for t, producer in enumerate(problem.tensor_producer.tolist()):
        if producer < 0 or node_of[producer] < 0:
            continue
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        pins = np.concatenate([[node_of[producer]], node_of[readers]])
        if pins.size < 2:
            continue
        if pins.size <= CLIQUE:
            first, second = np.triu_indices(pins.size, 1)
            rows.append(pins[first])
            columns.append(pins[second])
            prices.append(np.full(first.size, cost[t] / (pins.size - 1)))
        else:
            rows.append(np.full(pins.size - 1, pins[0]))
            columns.append(pins[1:])
            prices.append(np.full(pins.size - 1, cost[t]))
    a, b, price = np.concatenate(rows), np.concatenate(columns), np.concatenate(prices)
    n = max(units.size, 1)
    pairs, index = np.unique(np.concatenate([a * n + b, b * n + a]), return_inverse=True)
    summed = np.zeros(pairs.size)
    np.add.at(summed, index.reshape(-1), np.concatenate([price, price]))
    counts = np.bincount(pairs // n, minlength=units.size)
    return WeightedGraph(
        units=units,
        unit_weight=_whole(problem.compute_s[units]),
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)[: units.size + 1],
        neighbours=pairs % n,
        edge_weight=_whole(summed),
    )


def _whole(weights: npt.NDArray[np.float64]) -> Longs:
    mean = float(weights.mean()) if weights.size else 0.0
    scaled = np.rint(weights * (RESOLUTION / mean)) if mean > 0.0 else np.ones(weights.size)
    # Partitioners sum up weights in 32 bits.
    most = max(min(LARGEST, (1 << 30) // max(weights.size, 1) * 8), 1)
    return np.clip(scaled, 1, most).astype(np.int64)


PERIODS = (1.05, 1.1, 1.2, 1.4, 2.0, 4.0, np.inf)
"""Periods of cuts that are tried, as multiples of an even share of the work."""

ROLLOUTS = 8
"""Orders in which proposals are kept."""


def repaired(problem: PartitionProblem, wanted: Ints, rng: np.random.Generator) -> list[Ints]:
    """Partitions near `wanted[N]` that keep the rules; memory is not looked at by all of them.

    FIX (MCM, algorithm 2) keeps what the rules allow in some orders of the units. Where proposals
    contradict the dataflow, that leaves chips uneven, so there is also the topological order that
    follows the proposal as far as it can, cut for the shortest of some periods.
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
            rng, np.tile(at, (ROLLOUTS, 1)), np.exp(-2.0 * distance).astype(np.float32), orders
        )
        for row in found[found[:, 0] >= 0]:
            chips = np.zeros(problem.num_units, np.int32)
            chips[graph.units] = row
            rows.append(chips)
    order = graph.units[_following(graph, wanted[graph.units])]
    windows = windows_along(problem, order)
    even_s = float(problem.compute_s.sum()) / float(problem.chip_speed.sum())
    for factor in PERIODS if n else ():
        if (cuts := chain_windows(windows, even_s * factor)).size:
            rows.append(chips_from_cuts(problem, order, cuts))
            break
    return rows


def _following(graph: RuleGraph, wanted: Ints) -> Ints:
    """The topological order that takes, of the nodes that are ready, the lowest wish first."""
    missing = np.diff(graph.before.ptr).tolist()
    wish = wanted.tolist()
    ready = [(wish[v], v) for v, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, v = heapq.heappop(ready)
        order.append(v)
        for w in graph.after.row(v).tolist():
            missing[w] -= 1
            if missing[w] == 0:
                heapq.heappush(ready, (wish[w], w))
    return np.array(order, np.int32)
