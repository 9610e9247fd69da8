"""Contracting ops into placement units: fusion groups, single ops, and what has to join them.

What makes and what reads a value without a type stays on the same chip. A tensor between chips is
an input of one chip's model and an output of another's, and ONNX wants its type there. Nothing
knows the type of what an op of a foreign domain makes, unless the model says it. Such a value may
still exist inside a chip's model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.arrays.dags import find_circle, strong_components, topological
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import constants_and_placeable, consumed_values
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.problem.measured_names import kernel_key


def untyped_reads(
    reads: Sequence[tuple[ir.Value, ...]], maker: Mapping[ir.Value, int]
) -> list[tuple[int, int]]:
    """`(maker, reader)` of values without a type that one unit makes and another reads.

    Args:
        reads: values that each unit reads and does not make.
        maker: the unit that makes a value.
    """
    return [
        (maker[value], unit)
        for unit, values in enumerate(reads)
        for value in values
        if value.type is None and value in maker
    ]


def joined_units(
    successors: Sequence[Sequence[int]], together: Sequence[tuple[int, int]]
) -> list[int]:
    """The component of each unit, so that pairs of `together` share one and no cycle arises.

    With an edge back from each reader to its maker, the strongly connected components are the
    smallest such sets: what is on a path between two members of one is a member as well.

    Args:
        successors: units that read from each unit; acyclic.
        together: pairs of units that may not be separated.

    Returns:
        A number for each unit, equal for units of the same component.
    """
    follow = [list(units) for units in successors]
    for made_by, reader in together:
        follow[reader].append(made_by)
    return strong_components(follow)


def untyped_note(graph: ir.Graph, plan: FusionPlan) -> Diagnostic | None:
    """MCM-P014 if values without a type keep ops of different kernels together."""
    constants, nodes = constants_and_placeable(graph)
    kernel: dict[ir.Value, str] = {}
    found: dict[ir.Value, None] = {}
    for node in nodes:
        own = kernel_key(node, plan)
        for value in consumed_values(node):
            if value.type is None and value not in constants and kernel.get(value, own) != own:
                found[value] = None
        kernel.update((value, own) for value in node.outputs)
    if not found:
        return None
    first = next(iter(found))
    producer = first.producer()
    assert producer is not None, "only values that an op makes are collected"
    return Diagnostic(
        "MCM-P014",
        f"{count_text(len(found), 'value')} without a type can't travel between chips, so that "
        f"the ops that make and read them share a chip; the first is {quote(first.name or '')}",
        at=f"node {quote(producer.name or '')} of type {quote(producer.op_type)}",
    )


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
