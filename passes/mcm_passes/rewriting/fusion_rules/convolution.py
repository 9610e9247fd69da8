"""A convolution with what follows it: batch normalisation, residual, activation."""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.epilogue import with_epilogue
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

CONV_BN_ACTIVATION = FusionRule(
    "conv_bn_activation",
    frozenset({"Conv", "ConvInteger", "ConvTranspose", "QLinearConv"}),
    with_epilogue,
)
