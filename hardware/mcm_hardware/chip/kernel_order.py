"""Which ops of a chip run as one kernel, and in which order kernels run."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.chips import GROUP_PROPERTY
from mcm_compiler.graph.constants import consumed_values


@dataclass(frozen=True)
class KernelNodes:
    """The ops of one kernel.

    Attributes:
        name: of the fusion group, or of the only op.
        nodes: in order.
    """

    name: str
    nodes: tuple[ir.Node, ...]


def order_kernels(nodes: Sequence[ir.Node]) -> list[KernelNodes]:
    """Groups ops by `metadata_props["mcm.group"]` and orders the groups.

    The order of `nodes` is kept where it can be: a group stands where its first op stands, or as
    soon after as its operands are there. A group that depends on itself through other ops cannot
    run as one kernel; each unbroken run of its ops becomes one.

    Args:
        nodes: ops of one chip in topological order.
    """
    groups = [node.metadata_props.get(GROUP_PROPERTY, "") for node in nodes]
    units = _whole_groups(groups)
    order, stuck = _topological(nodes, units)
    if stuck:
        units = _with_runs(units, stuck)
        order, _ = _topological(nodes, units)
    members: dict[int, list[int]] = {}
    for position, unit in enumerate(units):
        members.setdefault(unit, []).append(position)
    kernels: list[KernelNodes] = []
    for unit in order:
        chosen = members[unit]
        name = groups[chosen[0]] if len(chosen) > 1 else nodes[chosen[0]].name or ""
        kernels.append(KernelNodes(name, tuple(nodes[position] for position in chosen)))
    return kernels


def _whole_groups(groups: Sequence[str]) -> list[int]:
    """Unit of each op: the position of the first op of its group."""
    first: dict[str, int] = {}
    return [first.setdefault(g, i) if g else i for i, g in enumerate(groups)]


def _with_runs(units: Sequence[int], stuck: set[int]) -> list[int]:
    """Units with those that are `stuck` cut into runs of neighbours.

    Units that could be ordered have only such units before them, so they stay acyclic; runs of
    neighbours in a topological order are convex.
    """
    cut: list[int] = []
    for position, unit in enumerate(units):
        if unit not in stuck:
            cut.append(unit)
        elif position > 0 and units[position - 1] == unit:
            cut.append(cut[-1])
        else:
            cut.append(position)
    return cut


def _topological(nodes: Sequence[ir.Node], units: Sequence[int]) -> tuple[list[int], set[int]]:
    """Units in topological order, smallest first where there is a choice; and those in cycles."""
    made_by: dict[ir.Value, int] = {}
    for node, unit in zip(nodes, units, strict=True):
        for value in node.outputs:
            made_by[value] = unit
    readers: dict[int, dict[int, None]] = {unit: {} for unit in units}
    waits = dict.fromkeys(readers, 0)
    for node, unit in zip(nodes, units, strict=True):
        for value in consumed_values(node):
            maker = made_by.get(value, unit)
            if maker != unit and unit not in readers[maker]:
                readers[maker][unit] = None
                waits[unit] += 1
    ready = [unit for unit, count in waits.items() if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        unit = heapq.heappop(ready)
        order.append(unit)
        for reader in readers[unit]:
            waits[reader] -= 1
            if waits[reader] == 0:
                heapq.heappush(ready, reader)
    return order, {unit for unit, count in waits.items() if count > 0}
