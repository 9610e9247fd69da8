"""The fusion rules: those of ONNX and those of plug-ins."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_compiler.registry import FUSION_RULES
from mcm_passes.rewriting.fusion_rules.attention import ATTENTION
from mcm_passes.rewriting.fusion_rules.chains import (
    CONV_BN_ACTIVATION,
    ELEMENTWISE,
    MATMUL_BIAS_ACTIVATION,
    VIEWS,
)
from mcm_passes.rewriting.fusion_rules.decompositions import (
    GELU,
    LAYER_NORM,
    RMS_NORM,
    SOFTMAX,
    SWISH,
)
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

ONNX_RULES: Mapping[str, FusionRule] = {
    rule.name: rule
    for rule in (
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
}
"""Small patterns come before the rules that take them over whole, and general rules last."""


def fusion_rules() -> dict[str, FusionRule]:
    """All rules in the order in which they are tried.

    A rule of a plug-in is tried before the rule that it names as `before`, or before all of ONNX;
    of several, in the order of their names.

    Raises:
        CompileError: MCM-X001 if two distributions or files have a rule of one name, MCM-X003 or
            MCM-X008 for an entry point that holds no rules, MCM-X007 for an unknown `before`.
    """
    held = FUSION_RULES.held(lambda rule: isinstance(rule, FusionRule))
    ordered = dict.fromkeys(ONNX_RULES)
    added: dict[str, list[str]] = {}
    for name in sorted(held.keys() - ordered.keys()):
        before = held[name][0].before or next(iter(ordered))
        with FUSION_RULES.at_work(name):
            if before not in ordered:
                raise ValueError(f"before={before!r} is none of {', '.join(ordered)}")
        added.setdefault(before, []).append(name)
    names = [name for known in ordered for name in (*added.get(known, ()), known)]
    return {name: held[name][0] for name in names}
