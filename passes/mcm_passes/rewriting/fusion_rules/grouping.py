"""The groups that were found so far, and what makes a new one valid.

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

from collections.abc import Iterable
from dataclasses import dataclass

from mcm_passes.rewriting.fusion_rules.fusion_graph import FusionGraph


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
