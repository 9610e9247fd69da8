"""Regions between one source value and one exit, which many patterns are."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Set
from dataclasses import dataclass

import onnx_ir as ir

from mcm_passes.rewriting.fusion_rules.grouping import OUTSIDE, FusionGraph

MAX_REGION = 24
"""Ops that a pattern may take; the largest decomposition in use (LayerNorm) has 13."""


def ancestors_up_to(
    graph: FusionGraph, anchor: int, source: ir.Value, allowed: Collection[str]
) -> set[int] | None:
    """`anchor` and the ops between `source` and it.

    Args:
        graph: the graph.
        anchor: where to start going backwards.
        source: the value at which to stop.
        allowed: types of the ops in between.

    Returns:
        None if the anchor depends on anything but constants and `source`, or an op in between is
        not allowed.
    """
    members = {anchor}
    pending = [anchor]
    while pending:
        for operand in graph.operands(pending.pop()):
            if operand is source:
                continue
            producer = graph.producer(operand)
            if producer is None or graph.op(producer) not in allowed:
                return None
            if producer not in members:
                if len(members) == MAX_REGION:
                    return None
                members.add(producer)
                pending.append(producer)
    return members


@dataclass(frozen=True)
class Growth:
    """How a region grows from its seed towards its exit.

    Attributes:
        source: the value that the region may read besides constants and its own results.
        allowed: types of the ops that it may take up.
        joins: types of the ops that complete the pattern...
        joined: ...when they read one of these values.
    """

    source: ir.Value
    allowed: frozenset[str]
    joins: frozenset[str]
    joined: frozenset[ir.Value]


def grow(graph: FusionGraph, seed: Set[int], growth: Growth) -> set[int] | None:
    """Takes up readers of the region as long as they read nothing from elsewhere.

    An op that computes `source` with constants only and is read by the new member alone (as in
    `(0.5 * x) * (1 + erf)`) comes along with it, and counts as reading the source.

    Returns:
        The largest region with a single exit that contains a join; None if there is none.
    """
    members = set(seed)
    best: set[int] | None = None
    complete = False
    pending: list[int] = []
    queued: set[int] = set()

    def queue_readers(position: int) -> None:
        # An output with many readers is where the pattern ends.
        for reader in graph.readers[position][:MAX_REGION]:
            if reader != OUTSIDE and reader not in queued and reader not in members:
                queued.add(reader)
                heapq.heappush(pending, reader)

    for position in sorted(seed):
        queue_readers(position)
    while pending and len(members) < MAX_REGION:
        position = heapq.heappop(pending)
        if not graph.fusible(position) or graph.op(position) not in growth.allowed:
            continue
        beside = _beside(graph, position, members, growth)
        if beside is None:
            continue
        members |= {position, *beside}
        queue_readers(position)
        if graph.op(position) in growth.joins:
            reads = any(operand in growth.joined for operand in graph.operands(position))
            complete = complete or reads or bool(beside)
        if complete and len(graph.exits(members)) == 1:
            best = set(members)
    return best


def _beside(
    graph: FusionGraph, position: int, members: Set[int], growth: Growth
) -> list[int] | None:
    """Ops that come along with a new member; None if it reads something from elsewhere."""
    beside: list[int] = []
    for operand in graph.operands(position):
        producer = graph.producer(operand)
        if operand is growth.source or producer in members:
            continue
        if producer is None or graph.op(producer) not in growth.allowed:
            return None
        if graph.operands(producer) != [growth.source] or graph.readers[producer] != (position,):
            return None
        beside.append(producer)
    return beside
