"""The order along which whole partitions are drawn."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, PartitionProblem
from mcm_models.policy.features import GraphFeatures
from mcm_passes.families.ring.solver.adjacent_domains import reach_of_cuts
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph
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
    table that fills a chip leaves no room there for work. A weight is divided among its users.
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
    reach = reach_of_cuts(graph, order)
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
