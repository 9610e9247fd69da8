"""LayerNorm in its parts (Ba et al. 2016, *Layer Normalization*).

`(x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + shift`, as PyTorch exports it up to
opset 16, and `x * (scale / root) + (shift - mean * scale / root)`, as TensorFlow does.
"""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.normalization import GROWTH_OPS, centered, root_mean_square
from mcm_passes.rewriting.fusion_rules.region import Growth, grow
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _match(grouping: Grouping, anchor: int) -> set[int] | None:
    graph = grouping.graph
    root = root_mean_square(graph, anchor)
    center = centered(graph, root.value) if root is not None else None
    if root is None or center is None:
        return None
    source, ops = center
    growth = Growth(
        source,
        allowed=GROWTH_OPS,
        joins=frozenset({"Div", "Mul"}),
        joined=frozenset({source, root.value}),
    )
    return grow(graph, root.members | ops, growth)


LAYER_NORM = FusionRule("layer_norm", frozenset({"Sqrt", "Pow"}), _match)
