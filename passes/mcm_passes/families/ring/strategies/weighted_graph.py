"""A problem as a weighted graph without directions, as general graph partitioners take it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem

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
