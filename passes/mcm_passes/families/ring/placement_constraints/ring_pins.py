"""Pins that no partition of a ring can keep."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Ints, PartitionProblem
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_passes.families.ring.solver.relay_domains import match
from mcm_passes.mapping.placement_constraints.pins import AT
from mcm_passes.mapping.problem.rule_graph import RuleGraph, rule_graph


def contradictions(problem: PartitionProblem) -> list[Diagnostic]:
    """Dataflow against the ring, or chips that would have to stay empty; MCM-F012.

    Args:
        problem: with pins in range.
    """
    graph = rule_graph(problem)
    return _against_the_ring(problem, graph) or _empty_chip(problem, graph)


def _against_the_ring(problem: PartitionProblem, graph: RuleGraph) -> list[Diagnostic]:
    crossed = np.flatnonzero(graph.low > graph.high)
    if not crossed.size:
        return []
    v = int(crossed[0])
    pinned = problem.pinned_chip[graph.units]
    early = _pinned_at(v, int(graph.low[v]), pinned, graph.low, graph.before)
    late = _pinned_at(v, int(graph.high[v]), pinned, graph.high, graph.after)
    before, after = (quote(problem.names[graph.units[w]]) for w in (early, late))
    message = (
        f"{before} is pinned to chip {graph.low[v]} and {after} to chip {graph.high[v]}, but "
        f"{after} depends on {before} and data flows to higher chips only"
    )
    hint = f"pin {after} to chip {graph.low[v]} or higher, or {before} lower"
    return [Diagnostic("MCM-F012", message, at=AT, hint=hint)]


def _pinned_at(v: int, chip: int, pinned: Ints, reach: Ints, near: Rows) -> int:
    """The node whose pin gave `v` its bound: back along the nodes that share it."""
    while pinned[v] != chip:
        v = next(u for u in near.row(v).tolist() if reach[u] == chip)
    return v


def _empty_chip(problem: PartitionProblem, graph: RuleGraph) -> list[Diagnostic]:
    highest = int(graph.low.max(initial=-1))
    needed = np.arange(graph.num_chips) <= highest
    nodes = np.arange(graph.num_nodes, dtype=np.int32)
    chosen = np.full(graph.num_chips, -1, np.int32)
    empty = match(nodes, graph.low, graph.high, needed, chosen)
    if empty < 0:
        return []
    v = int(graph.low.argmax())
    name = quote(problem.names[graph.units[v]])
    message = (
        f"the pins put {name} on chip {highest} or higher, and leave too few ops for the chips "
        f"before it: chip {empty} would stay empty"
    )
    hint = "no chip below a used one may be empty; pin to lower chips, or pin fewer ops"
    return [Diagnostic("MCM-F012", message, at=AT, hint=hint)]
