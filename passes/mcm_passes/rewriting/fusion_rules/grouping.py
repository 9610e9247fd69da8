"""The graph as fusion rules see it, the groups found so far, and what makes a new one valid.

A group is valid if it has a *single exit*: one member whose outputs others may read, while the
outputs of all other members are read by members alone. Then every member is an ancestor of the
exit, and two facts follow without any search.

*Each group is convex.* A path that leaves a group leaves it from its exit. If it came back, it
would come back to a member, which is an ancestor of the exit: a cycle in the graph.

*Groups, contracted to one node each, form an acyclic graph.* Suppose groups G1, G2, ..., Gk, G1
form a cycle (an op outside of groups counts as a group of one). The edge from Gi to the next
group starts at the exit of Gi and ends at a member of the next, which is that group's exit or an
ancestor of it. So the exit of Gi is a proper ancestor of the exit of the next group, and around
the cycle of itself: a cycle in the graph.

(Our derivation.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Set
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.graph.constants import constants_and_placeable, subgraphs

OUTSIDE = -1
"""Stands among an op's readers for a graph output and for a subgraph."""


class FusionGraph:
    """Ops by their position in the graph, which is a topological order.

    Attributes:
        nodes: `[N]`, all ops of the main graph.
        readers: `[N]`, positions of the distinct ops that read an output of each op, ascending;
            the first is `OUTSIDE` where an output leaves the main graph's ops.

    Args:
        graph: the graph.
        apart: ops that join no group.
    """

    def __init__(self, graph: ir.Graph, apart: Container[ir.Node] = ()) -> None:
        self.nodes: list[ir.Node] = list(graph)
        self._constants, placed = constants_and_placeable(graph)
        self._position = {node: i for i, node in enumerate(self.nodes)}
        placeable = set(placed)
        self._fusible = [
            node in placeable and node not in apart and not subgraphs(node) for node in self.nodes
        ]
        self.readers: list[tuple[int, ...]] = [self._readers(node) for node in self.nodes]
        self._positions: defaultdict[str, list[int]] = defaultdict(list)
        for position in range(len(self.nodes)):
            self._positions[self.op(position)].append(position)

    def positions_of(self, ops: Iterable[str]) -> list[int]:
        """Positions of all ops of the given types, ascending."""
        return sorted(position for op in ops for position in self._positions.get(op, ()))

    def fusible(self, position: int) -> bool:
        """Return whether the op may join a group: it is placed on a chip and holds no subgraph."""
        return self._fusible[position]

    def op(self, position: int) -> str:
        """Type of the op, with its domain in front if that is not the default one."""
        node = self.nodes[position]
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        return domain + node.op_type

    def is_constant(self, value: ir.Value) -> bool:
        """Return whether `value` does not depend on a graph input."""
        return value in self._constants

    def operands(self, position: int) -> list[ir.Value]:
        """Distinct inputs of the op that are not constant."""
        inputs = dict.fromkeys(v for v in self.nodes[position].inputs if v is not None)
        return [v for v in inputs if v not in self._constants]

    def producer(self, value: ir.Value) -> int | None:
        """Position of the fusible op that makes `value`, if there is one."""
        node = value.producer()
        position = self._position.get(node) if node is not None else None
        return position if position is not None and self._fusible[position] else None

    def producer_of(self, value: ir.Value, *ops: str) -> int | None:
        """As `producer`, if the op is one of `ops`."""
        position = self.producer(value)
        return position if position is not None and self.op(position) in ops else None

    def output(self, position: int) -> ir.Value:
        """The first output of the op."""
        return self.nodes[position].outputs[0]

    def only_reader(self, position: int) -> int | None:
        """The one fusible op that reads the outputs of the op, if there is just one reader."""
        readers = self.readers[position]
        if len(readers) == 1 and readers[0] != OUTSIDE and self._fusible[readers[0]]:
            return readers[0]
        return None

    def exits(self, members: Set[int]) -> list[int]:
        """Members whose outputs are read by others than members, or by nobody; at most two."""
        found: list[int] = []
        for member in sorted(members):
            readers = self.readers[member]
            if not readers or any(reader not in members for reader in readers):
                found.append(member)
                if len(found) == 2:
                    break
        return found

    def _readers(self, node: ir.Node) -> tuple[int, ...]:
        found: set[int] = set()
        for value in node.outputs:
            if value.is_graph_output():
                found.add(OUTSIDE)
            for use in value.uses():
                found.add(self._position.get(use.node, OUTSIDE))
        return tuple(sorted(found))


@dataclass(frozen=True)
class Group:
    """Positions of ops that run as one kernel.

    Attributes:
        kind: name of the rule that found it.
        members: positions in the graph.
        exit: the member whose outputs others read.
    """

    kind: str
    members: frozenset[int]
    exit: int


class Grouping:
    """Disjoint groups of a graph.

    Args:
        graph: the graph.
        max_group: most members of a group.
    """

    def __init__(self, graph: FusionGraph, max_group: int) -> None:
        self.graph = graph
        self.max_group = max_group
        self._group_of: dict[int, Group] = {}
        self._positions = frozenset(range(len(graph.nodes)))

    def group_of(self, position: int) -> Group | None:
        """The group of an op, or None."""
        return self._group_of.get(position)

    def is_free(self, position: int) -> bool:
        """Return whether the op may join a group and is in none."""
        return self.graph.fusible(position) and position not in self._group_of

    def add(self, kind: str, positions: Iterable[int]) -> bool:
        """Makes a group if it is valid; groups that it contains whole are merged into it.

        Args:
            kind: name of the rule.
            positions: the members.

        Returns:
            Whether the group was made. Not so if it has fewer than two members or more than
            `max_group`, an op that cannot be fused, part of another group, or several exits.

        Raises:
            IndexError: for a position that no op has.
        """
        members = frozenset(positions)
        if strange := members - self._positions:
            raise IndexError(f"no op has position {next(iter(strange))!r}")
        if not 2 <= len(members) <= self.max_group:
            return False
        for position in members:
            if not self.graph.fusible(position):
                return False
            group = self._group_of.get(position)
            if group is not None and not group.members <= members:
                return False
        exits = self.graph.exits(members)
        if len(exits) != 1:
            return False
        group = Group(kind, members, exits[0])
        for position in members:
            self._group_of[position] = group
        return True

    def groups(self) -> list[Group]:
        """All groups in a topological order of the contracted graph: that of their exits."""
        distinct = {group.exit: group for group in self._group_of.values()}
        return [distinct[exit_] for exit_ in sorted(distinct)]
