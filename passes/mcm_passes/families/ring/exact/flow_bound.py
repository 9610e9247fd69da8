"""The flow bound: the shortest period that chip windows and link cuts allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import LowerBound, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import bytes_text, seconds_text
from mcm_passes.families.ring.loads.chip_demands import ChipDemands
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows, chip_windows
from mcm_passes.mapping.bounds import bounds
from mcm_passes.mapping.bounds.work_around import WorkAround, work_around
from mcm_passes.mapping.loads.problem_arrays import CROSSED
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph

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


OF_WINDOWS, OF_LINKS = "windows", "link_cuts"
"""Names of the proofs."""

STEPS = 40
"""Halvings of the bisection: to 1e-12 of the first interval."""


@dataclass(frozen=True)
class Obstacle:
    """Why no partition is within a period.

    Attributes:
        node: the node without a chip, or -1.
        link: the link that must carry too much, or -1.
        crossing_bytes: what it must carry.
    """

    node: int
    link: int = -1
    crossing_bytes: int = 0


def obstacle(
    problem: PartitionProblem,
    graph: RuleGraph,
    around: WorkAround,
    period_s: float,
    demands: ChipDemands | None,
) -> Obstacle | None:
    """What shows that no partition is within `period_s`; None where nothing does.

    Args:
        problem: the problem.
        graph: its rule graph.
        around: its `work_around`.
        period_s: the period.
        demands: its demands, or None to leave the links out.
    """
    windows = chip_windows(problem, graph, around, period_s)
    if windows.empty:
        return Obstacle(int(np.argmax(windows.low - windows.high)))
    if demands is None:
        return None
    most = period_s * problem.limits.link_bytes_per_s
    if int(demands.tensors.amount[:, CROSSED].sum()) <= most:
        return None
    for link in range(problem.num_chips - 1):
        crossing = fewest_crossing_bytes(graph, demands, windows, link)
        if crossing > most * (1.0 + 1e-9):
            return Obstacle(-1, link, crossing)
    return None


def flow_bound(
    problem: PartitionProblem,
    graph: RuleGraph,
    around: WorkAround,
    demands: ChipDemands | None,
    least_s: float,
    most_s: float,
) -> LowerBound:
    """The largest period between `least_s` and `most_s` that an obstacle rules out.

    Larger periods only widen windows and links, so bisection finds the threshold; links are
    looked at only where windows alone leave it.

    Args:
        problem: the problem.
        graph: its rule graph.
        around: its `work_around`.
        demands: its demands, or None to leave the links out.
        least_s: a bound that is known already.
        most_s: the period of a known partition.

    Returns:
        0 seconds where nothing beyond `least_s` is proven.
    """
    known, proven = least_s, LowerBound(0.0, "no obstacle")
    for of_links in (None, demands) if demands is not None else (None,):
        low, high = known, most_s
        why = obstacle(problem, graph, around, low, of_links)
        if why is None:
            continue
        for _ in range(STEPS):
            if high - low <= 1e-9 * high:
                break
            middle = 0.5 * (low + high)
            in_the_way = obstacle(problem, graph, around, middle, of_links)
            if in_the_way is None:
                high = middle
            else:
                low, why = middle, in_the_way
        known, proven = low, _bound(problem, graph, low, why)
    return proven


def _bound(
    problem: PartitionProblem, graph: RuleGraph, seconds: float, why: Obstacle
) -> LowerBound:
    within = f"within {seconds_text(seconds)}"
    if why.node < 0:
        crossing = bytes_text(why.crossing_bytes)
        text = f"{within} at least {crossing} must cross the link after chip {why.link}"
        return LowerBound(seconds, text, OF_LINKS)
    unit = quote(problem.names[graph.units[why.node]])
    text = f"{within} no chip is left for unit {unit} between the work before and after it"
    return LowerBound(seconds, text, OF_WINDOWS)


def windows_of_units(problem: PartitionProblem, least_s: float) -> LowerBound:
    """The period below which some unit has no chip left; see `chip_windows`.

    Args:
        problem: the problem.
        least_s: a bound that is known already.
    """
    graph = rule_graph(problem)
    if not 0 < graph.num_nodes <= bounds.MAX_CLOSURE_UNITS:
        return LowerBound(0.0, "no unit")
    most_s = 2.0 * float(problem.compute_s.sum()) / float(problem.chip_speed.min())
    around = work_around(problem, graph)
    return flow_bound(problem, graph, around, None, least_s, max(most_s, least_s))
