"""A view of a group's result joins the group: it moves no data."""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.op_classes import VIEW_OPS
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _match(grouping: Grouping, anchor: int) -> set[int] | None:
    viewed = grouping.graph.nodes[anchor].inputs[0]
    producer = grouping.graph.producer(viewed) if viewed is not None else None
    group = grouping.group_of(producer) if producer is not None else None
    if group is None or group.exit != producer:
        return None
    return {*group.members, anchor}


VIEWS = FusionRule("view", VIEW_OPS, _match, extends=True)
