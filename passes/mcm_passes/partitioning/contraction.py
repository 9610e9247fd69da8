"""Contracting ops into placement units: fusion groups, or single ops."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.fusion import FusionPlan
from mcm_compiler.ir.constants import consumed_values


@dataclass(frozen=True, eq=False)
class Unit:
    """One placement unit.

    Attributes:
        name: of its fusion group, or of its only op.
        nodes: its ops, in graph order.
        reads: distinct values that its ops read and that none of its ops makes.
    """

    name: str
    nodes: Sequence[ir.Node]
    reads: tuple[ir.Value, ...]


def contract(nodes: list[ir.Node], plan: FusionPlan) -> list[Unit]:
    """The units of `nodes` in a topological order of the contracted graph.

    The order is stable: among units that are ready, the one whose last op stands first in the
    graph comes first, because a kernel can't start before all that its ops read is there.

    Args:
        nodes: ops to place, in graph order.
        plan: the fusion plan.

    Raises:
        CompileError: MCM-P001 naming a group of the plan that lies on a cycle.
    """
    unit_of_name: dict[str, int] = {}
    members: list[list[ir.Node]] = []
    last_position: list[int] = []
    names: list[str] = []
    maker: dict[ir.Value, int] = {}
    for position, node in enumerate(nodes):
        group = plan.group_of.get(node.name or "")
        key = f"group {group.name}" if group is not None else f"node {node.name}"
        unit = unit_of_name.setdefault(key, len(members))
        if unit == len(members):
            members.append([])
            last_position.append(0)
            names.append(group.name if group is not None else node.name or "")
        members[unit].append(node)
        last_position[unit] = position
        for value in node.outputs:
            maker[value] = unit

    reads: list[tuple[ir.Value, ...]] = []
    successors: list[list[int]] = [[] for _ in members]
    missing = [0] * len(members)
    for unit, ops in enumerate(members):
        distinct = {value: None for op in ops for value in consumed_values(op)}
        outside = tuple(value for value in distinct if maker.get(value) != unit)
        reads.append(outside)
        for producer in {maker[value]: None for value in outside if value in maker}:
            successors[producer].append(unit)
            missing[unit] += 1

    ready = [(last_position[u], u) for u in range(len(members)) if missing[u] == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for follower in successors[unit]:
            missing[follower] -= 1
            if missing[follower] == 0:
                heapq.heappush(ready, (last_position[follower], follower))
    if len(order) < len(members):
        raise CompileError(_cycle(members, names, successors, missing))
    return [Unit(names[u], tuple(members[u]), reads[u]) for u in order]


def _cycle(
    members: list[list[ir.Node]],
    names: list[str],
    successors: list[list[int]],
    missing: list[int],
) -> Diagnostic:
    """The diagnostic for a cycle: some group on it is not convex, since the graph has none."""
    stuck = [u for u, count in enumerate(missing) if count > 0]
    inside = set(stuck)
    waits_for: dict[int, int] = {}
    for u in stuck:
        for follower in successors[u]:
            if follower in inside:
                waits_for.setdefault(follower, u)
    seen: list[int] = []
    unit = stuck[0]
    visited: set[int] = set()
    while unit not in visited:
        visited.add(unit)
        seen.append(unit)
        unit = waits_for[unit]
    cycle = seen[seen.index(unit) :]
    group = max(cycle, key=lambda u: (len(members[u]), -u))
    through = ", ".join(quote(names[u]) for u in cycle[:4] if u != group)
    return Diagnostic(
        "MCM-P001",
        f"fusion group {quote(names[group])} of {len(members[group])} ops is not convex: "
        f"a path leaves it and comes back{f' through {through}' if through else ''}",
        at=f"node {quote(members[group][-1].name or '')}",
        hint="this is a fault of the fusion rule that made the group; compile without `fuse`",
    )
