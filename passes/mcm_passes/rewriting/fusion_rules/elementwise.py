"""Ops that are fused by their class alone: chains of elementwise ops, and views."""

from __future__ import annotations

from mcm_compiler.graph.op_classes import ELEMENTWISE_OPS, VIEW_OPS
from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _chain(grouping: Grouping, anchor: int) -> list[int]:
    """Elementwise ops, each the only reader of the one before."""
    members = [anchor]
    while len(members) < grouping.max_group:
        reader = grouping.graph.only_reader(members[-1])
        if reader is None or not grouping.is_free(reader):
            break
        if grouping.graph.op(reader) not in ELEMENTWISE_OPS:
            break
        members.append(reader)
    return members


ELEMENTWISE = FusionRule("elementwise", ELEMENTWISE_OPS, _chain)


def _viewed(grouping: Grouping, anchor: int) -> set[int] | None:
    """A view of a group's result joins the group: it moves no data."""
    viewed = grouping.graph.nodes[anchor].inputs[0]
    producer = grouping.graph.producer(viewed) if viewed is not None else None
    group = grouping.group_of(producer) if producer is not None else None
    if group is None or group.exit != producer:
        return None
    return {*group.members, anchor}


VIEWS = FusionRule("view", VIEW_OPS, _viewed, extends=True)
