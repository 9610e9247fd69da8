"""The fusion rules, one pattern a file, in the order in which they are tried."""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.attention import ATTENTION
from mcm_passes.rewriting.fusion_rules.convolution import CONV_BN_ACTIVATION
from mcm_passes.rewriting.fusion_rules.elementwise import ELEMENTWISE
from mcm_passes.rewriting.fusion_rules.gelu import GELU
from mcm_passes.rewriting.fusion_rules.layer_norm import LAYER_NORM
from mcm_passes.rewriting.fusion_rules.matmul import MATMUL_BIAS_ACTIVATION
from mcm_passes.rewriting.fusion_rules.rms_norm import RMS_NORM
from mcm_passes.rewriting.fusion_rules.rule import FusionRule
from mcm_passes.rewriting.fusion_rules.softmax import SOFTMAX
from mcm_passes.rewriting.fusion_rules.swish import SWISH
from mcm_passes.rewriting.fusion_rules.views import VIEWS

RULES: tuple[FusionRule, ...] = (
    SOFTMAX,
    ATTENTION,
    LAYER_NORM,
    RMS_NORM,
    GELU,
    SWISH,
    CONV_BN_ACTIVATION,
    MATMUL_BIAS_ACTIVATION,
    ELEMENTWISE,
    VIEWS,
)
"""Small patterns come before the rules that take them over whole, and general rules last."""
