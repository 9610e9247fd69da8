"""Which ops that the host runs share one round trip.

Each op has a *stage*: how often the way to it changes between chip and host, on the path on which
it does so most often. Ops of the host that follow one another in one stage are a group.

*Each group is convex.* A path that leaves it for an op of a chip, and comes back to the host, is
two stages further then.

*Groups of the host and fused groups of chips, contracted to one node each, form an acyclic graph.*
A fused group has a single exit (`grouping`); let its stage be that of its exit, which none of its
members exceeds, as all are ancestors of it. Then no edge between groups leads to a lower stage.
Each edge to or from a group of the host leads to a higher one: two groups of the host of one stage
with an edge between them would be one. So no cycle has a group of the host, and fused groups among
themselves have none.

(Our derivation.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.graph.constants import constants_and_placeable, consumed_values


def host_groups(
    graph: ir.Graph, hosted: Collection[ir.Node], free: Callable[[ir.Node], bool]
) -> list[tuple[ir.Node, ...]]:
    """The groups of ops that the host runs, each in graph order. Takes linear time.

    Ops that take no time, such as views, stay on the host where they stand between its ops.

    Args:
        graph: in topological order; left unchanged.
        hosted: ops that chips lack.
        free: whether an op takes no time.
    """
    constants, nodes = constants_and_placeable(graph)
    maker = {value: node for node in nodes for value in node.outputs if value not in constants}
    makers = {
        node: [maker[value] for value in consumed_values(node) if value in maker] for node in nodes
    }
    there = {*hosted, *_between(nodes, makers, hosted, free)}
    stage: dict[ir.Node, int] = {}
    group: dict[ir.Node, list[ir.Node]] = {}
    for node in nodes:
        on_host = node in there
        stage[node] = max(
            (stage[one] + (on_host != (one in there)) for one in makers[node]), default=int(on_host)
        )
        if not on_host:
            continue
        group[node] = [node]
        for one in makers[node]:
            if one in there and stage[one] == stage[node] and group[one] is not group[node]:
                _join(group, group[one], group[node])
    place = {node: position for position, node in enumerate(nodes)}
    distinct = {id(members): members for members in group.values()}
    found = [tuple(sorted(members, key=place.__getitem__)) for members in distinct.values()]
    return sorted(found, key=lambda members: place[members[-1]])


def _join(group: dict[ir.Node, list[ir.Node]], left: list[ir.Node], right: list[ir.Node]) -> None:
    """Makes two groups one; the smaller moves, so that each op moves log n times."""
    large, small = (left, right) if len(left) >= len(right) else (right, left)
    large += small
    for node in small:
        group[node] = large


def _between(
    nodes: Sequence[ir.Node],
    makers: Mapping[ir.Node, Sequence[ir.Node]],
    hosted: Collection[ir.Node],
    free: Callable[[ir.Node], bool],
) -> set[ir.Node]:
    """Free ops that read from the host's ops alone, and are read by them alone."""
    after: set[ir.Node] = set()
    for node in nodes:
        alone = makers[node] and all(one in hosted or one in after for one in makers[node])
        if alone and node not in hosted and free(node):
            after.add(node)
    kept: set[ir.Node] = set()
    for node in reversed(nodes):
        if node in after and not any(value.is_graph_output() for value in node.outputs):
            readers = [use.node for value in node.outputs for use in value.uses()]
            if readers and all(reader in hosted or reader in kept for reader in readers):
                kept.add(node)
    return kept
