"""Swish and its kin in parts: `x * sigmoid(a x)` (SiLU), HardSwish, Mish.

Ramachandran et al. 2017, *Searching for Activation Functions*; Howard et al. 2019, *Searching for
MobileNetV3* (`x * clip(x + 3, 0, 6) / 6`); Misra 2019, *Mish* (`x * tanh(softplus(x))`).
"""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.gated_activation import gated_activation
from mcm_passes.rewriting.fusion_rules.grouping import Grouping
from mcm_passes.rewriting.fusion_rules.rule import FusionRule


def _match(grouping: Grouping, anchor: int) -> set[int] | None:
    return gated_activation(grouping.graph, anchor)


SWISH = FusionRule("swish", frozenset({"Clip", "HardSigmoid", "Sigmoid", "Tanh"}), _match)
