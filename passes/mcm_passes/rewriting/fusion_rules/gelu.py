"""Gelu in its parts: by the error function, or approximated by tanh.

Hendrycks and Gimpel 2016, *Gaussian Error Linear Units*: `x / 2 * (1 + erf(x / sqrt(2)))` and
`x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, with the factors in any order.
"""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.gated_activation import gated_activation
from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _match(grouping: Grouping, anchor: int) -> set[int] | None:
    graph = grouping.graph
    above = [graph.producer_of(v, "Softplus") for v in graph.operands(anchor)]
    # x * tanh(softplus(x)) is Mish.
    return None if any(p is not None for p in above) else gated_activation(graph, anchor)


GELU = FusionRule("gelu", frozenset({"Erf", "Tanh"}), _match)
