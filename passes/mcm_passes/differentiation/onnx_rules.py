"""Gradient rules of ONNX's own operators, one family a file.

Every file has `RULES`, rules by operator. Versions of ops are those of opset 18 or newer.
"""

from __future__ import annotations

from mcm_compiler.contracts.gradients import GradientRule
from mcm_passes.differentiation.rules import (
    contractions,
    elementwise,
    function_bodies,
    normalisations,
    rearranging,
    recurrent,
    reductions,
    refused,
    resizing,
    windows,
)

FAMILIES: dict[str, dict[str, GradientRule]] = {
    "elementwise": elementwise.RULES,
    "reductions": reductions.RULES,
    "function_bodies": function_bodies.RULES,
    "windows": windows.RULES,
    "normalisations": normalisations.RULES,
    "rearranging": rearranging.RULES,
    "contractions": contractions.RULES,
    "recurrent": recurrent.RULES,
    "resizing": resizing.RULES,
    "refused": refused.RULES,
}

ONNX_GRADIENTS: dict[str, GradientRule] = {
    operator: rule for rules in FAMILIES.values() for operator, rule in rules.items()
}
