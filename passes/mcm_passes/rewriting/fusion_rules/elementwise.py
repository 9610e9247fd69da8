"""Chains of elementwise ops, each the only reader of the one before."""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.op_classes import ELEMENTWISE_OPS
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _match(grouping: Grouping, anchor: int) -> list[int]:
    members = [anchor]
    while len(members) < grouping.max_group:
        reader = grouping.graph.only_reader(members[-1])
        if reader is None or not grouping.is_free(reader):
            break
        if grouping.graph.op(reader) not in ELEMENTWISE_OPS:
            break
        members.append(reader)
    return members


ELEMENTWISE = FusionRule("elementwise", ELEMENTWISE_OPS, _match)
