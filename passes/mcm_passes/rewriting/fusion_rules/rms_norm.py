"""RMSNorm in its parts (Zhang and Sennrich 2019): `x / sqrt(mean(x^2) + epsilon) * scale`."""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.normalization import GROWTH_OPS, root_mean_square
from mcm_passes.rewriting.fusion_rules.region import Growth, grow
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _match(grouping: Grouping, anchor: int) -> set[int] | None:
    graph = grouping.graph
    root = root_mean_square(graph, anchor)
    if root is None:
        return None
    growth = Growth(
        root.value,
        allowed=GROWTH_OPS,
        joins=frozenset({"Div", "Mul"}),
        joined=frozenset({root.value}),
    )
    return grow(graph, root.members, growth)


RMS_NORM = FusionRule("rms_norm", frozenset({"Sqrt", "Pow"}), _match)
