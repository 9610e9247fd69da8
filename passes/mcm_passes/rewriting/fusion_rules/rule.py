"""The form of a fusion rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mcm_passes.rewriting.fusion_rules.grouping import Grouping

Matcher = Callable[[Grouping, int], Iterable[int] | None]


@dataclass(frozen=True)
class FusionRule:
    """A pattern of ops that run as one kernel.

    Attributes:
        name: the kind of its groups.
        anchors: op types at which the pattern is tried.
        match: from the groups so far and the position of an anchor to the members of a group, or
            None. It looks at a bounded neighbourhood, so that a rule is linear in the graph;
            whether the members make a valid group is checked by `Grouping.add`.
        extends: the group keeps the kind of the group that it extends.
        before: a rule of ONNX that is tried after this one of a plug-in; the first by default.
    """

    name: str
    anchors: frozenset[str]
    match: Matcher
    extends: bool = False
    before: str = ""

    def apply(self, grouping: Grouping) -> None:
        """Tries the rule at all anchors that are free, in graph order."""
        graph = grouping.graph
        for position in graph.positions_of(self.anchors):
            if not grouping.is_free(position):
                continue
            members = self.match(grouping, position)
            if members is None:
                continue
            members = tuple(members)
            kind = self.name
            if self.extends:
                extended = (grouping.group_of(member) for member in members)
                kind = next((group.kind for group in extended if group is not None), kind)
            grouping.add(kind, members)
