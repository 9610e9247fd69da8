"""Contracting ops into placement units: fusion groups, single ops, and what has to join them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.arrays.dags import find_circle, topological
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import consumed_values
from mcm_passes.mapping.problem.measured_names import kernel_key
from mcm_passes.mapping.problem.untyped_values import joined_units, untyped_reads


@dataclass(frozen=True, eq=False)
class Unit:
    """One placement unit.

    Attributes:
        name: of its last fusion group or single op.
        kernels: its fusion groups and single ops in a topological order, each with its ops in
            graph order. More than one where values without a type lie between them.
        reads: distinct values that its ops read and that none of its ops makes.
    """

    name: str
    kernels: tuple[tuple[ir.Node, ...], ...]
    reads: tuple[ir.Value, ...]

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        """Its ops, kernel by kernel."""
        return tuple(node for kernel in self.kernels for node in kernel)


def contract(
    nodes: list[ir.Node], plan: FusionPlan, together: Sequence[tuple[ir.Node, ir.Node]] = ()
) -> list[Unit]:
    """The units of `nodes` in a topological order of the contracted graph.

    The order is stable: among units that are ready, the one whose last op stands first in the
    graph comes first, because a kernel can't start before all that its ops read is there. Units
    with a value between them whose type nothing gives become one unit, and so do ops that have to
    be `together`, with all that is on paths between them.

    Args:
        nodes: ops to place, in graph order.
        plan: the fusion plan.
        together: pairs of ops that have to be in one unit, because they share state.

    Raises:
        CompileError: MCM-P001 naming a group of the plan that is on a cycle.
    """
    unit_of_name: dict[str, int] = {}
    members: list[list[ir.Node]] = []
    last_position: list[int] = []
    names: list[str] = []
    for position, node in enumerate(nodes):
        group = plan.group_of.get(node.name or "")
        unit = unit_of_name.setdefault(kernel_key(node, plan), len(members))
        if unit == len(members):
            members.append([])
            last_position.append(0)
            names.append(group.name if group is not None else node.name or "")
        members[unit].append(node)
        last_position[unit] = position

    maker, reads, successors = _dataflow(members)
    order = topological(successors, last_position)
    if len(order) < len(members):
        raise CompileError(_cycle(members, names, successors))
    kernels = [tuple(ops) for ops in members]
    unit_of = {node: u for u, ops in enumerate(members) for node in ops}
    joining = untyped_reads(reads, maker)
    for one, other in together:
        # Both ways, as there need be no path from the one to the other.
        joining += [(unit_of[one], unit_of[other]), (unit_of[other], unit_of[one])]
    if not joining:
        return [Unit(names[u], (kernels[u],), reads[u]) for u in order]

    component = joined_units(successors, joining)
    joined: dict[int, list[int]] = {}
    for unit in order:
        joined.setdefault(component[unit], []).append(unit)
    parts = list(joined.values())
    _, reads, successors = _dataflow([[op for u in part for op in members[u]] for part in parts])
    order = topological(successors, [max(last_position[u] for u in part) for part in parts])
    return [Unit(names[parts[j][-1]], tuple(kernels[u] for u in parts[j]), reads[j]) for j in order]


def _dataflow(
    members: list[list[ir.Node]],
) -> tuple[dict[ir.Value, int], list[tuple[ir.Value, ...]], list[list[int]]]:
    """The unit that makes each value, what each unit reads from outside, and who reads from it."""
    maker = {value: u for u, ops in enumerate(members) for op in ops for value in op.outputs}
    reads: list[tuple[ir.Value, ...]] = []
    successors: list[list[int]] = [[] for _ in members]
    for unit, ops in enumerate(members):
        distinct = {value: None for op in ops for value in consumed_values(op)}
        outside = tuple(value for value in distinct if maker.get(value) != unit)
        reads.append(outside)
        for producer in {maker[value]: None for value in outside if value in maker}:
            successors[producer].append(unit)
    return maker, reads, successors


def _cycle(
    members: list[list[ir.Node]], names: list[str], successors: list[list[int]]
) -> Diagnostic:
    """The diagnostic for a cycle: some group on it is not convex, since the graph has none."""
    cycle = find_circle((u, v) for u, following in enumerate(successors) for v in following)
    group = max(cycle, key=lambda u: (len(members[u]), -u))
    through = ", ".join(quote(names[u]) for u in cycle[:4] if u != group)
    return Diagnostic(
        "MCM-P001",
        f"fusion group {quote(names[group])} of {len(members[group])} ops is not convex: "
        f"a path leaves it and comes back{f' through {through}' if through else ''}",
        at=f"node {quote(members[group][-1].name or '')}",
    )
