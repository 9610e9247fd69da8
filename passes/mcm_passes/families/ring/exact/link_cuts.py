"""The fewest bytes that must cross a link, as a minimum cut."""

from __future__ import annotations

import numpy as np

from mcm_passes.families.ring.loads.chip_demands import ChipDemands
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.mapping.loads.tensor_columns import CROSSED
from mcm_passes.mapping.problem.rule_graph import RuleGraph

MOST_BYTES = 2**60
"""The flow solver counts in 64-bit integers."""


def fewest_crossing_bytes(
    graph: RuleGraph, demands: ChipDemands, windows: ChipWindows, link: int
) -> int:
    """Bytes that cross the link from chip `link` to the next in the best of all placements.

    Every placement within the windows splits the nodes into those up to the link and those
    beyond, with no edge backwards. A tensor crosses if it is made up to the link and some reader
    is beyond. That is a minimum cut of a network with one vertex per node and per tensor: nodes
    that must be up to the link belong to its source, nodes that must be beyond to its sink, a
    tensor's bytes stand between its producer and its readers, and an edge of unlimited capacity
    from each node to its predecessors forbids steps back. 0 where either side may be empty.
    """
    up_to = np.flatnonzero(windows.high <= link)
    beyond = np.flatnonzero(windows.low > link)
    if not up_to.size or not beyond.size:
        return 0
    from ortools.graph.python.max_flow import SimpleMaxFlow

    n, tensors = graph.num_nodes, demands.tensors
    made = np.flatnonzero(tensors.producer >= 0)
    vertex = np.full(tensors.producer.size, -1, np.int64)
    vertex[made] = n + np.arange(made.size)
    source, sink = n + made.size, n + made.size + 1
    rows = tensors.readers.owners
    read = tensors.producer[rows] >= 0
    reader, tensor = tensors.readers.entries[read], vertex[rows[read]]
    later = np.repeat(np.arange(n), np.diff(graph.before_ptr))
    from_source, to_sink = np.full(up_to.size, source), np.full(beyond.size, sink)
    tail = np.concatenate([tensors.producer[made], tensor, later, from_source, beyond])
    head = np.concatenate([vertex[made], reader, graph.before_nodes, up_to, to_sink])
    capacity = np.full(tail.size, MOST_BYTES, np.int64)
    capacity[: made.size] = tensors.amount[made, CROSSED]
    flow = SimpleMaxFlow()
    flow.add_arcs_with_capacity(tail, head, capacity)  # pyright: ignore[reportArgumentType]
    if flow.solve(source, sink) != SimpleMaxFlow.OPTIMAL:
        # More than any link could carry: the windows leave no split without a step back.
        return MOST_BYTES
    return min(int(flow.optimal_flow()), MOST_BYTES)
