"""Sharding rules of ONNX's own operators, one family a file, and of some of onnxruntime's.

Every file has `RULES`, rule makers by operator.
"""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import RuleMaker
from mcm_passes.parallelism.rules.operators import (
    attention,
    batch_only,
    convolutions,
    elementwise,
    extents,
    indexing,
    losses,
    normalisations,
    pooling,
    products,
    rearranging,
    reductions,
    undivided,
)
from mcm_passes.parallelism.rules.operators.composing import MICROSOFT_RULES

__all__ = ["FAMILIES", "MICROSOFT_RULES", "ONNX_RULES"]

FAMILIES = {
    module.__name__.rpartition(".")[2]: module.RULES
    for module in (
        elementwise,
        reductions,
        products,
        convolutions,
        pooling,
        normalisations,
        attention,
        rearranging,
        extents,
        indexing,
        losses,
        batch_only,
        undivided,
    )
}

ONNX_RULES: dict[str, RuleMaker] = {
    operator: maker for rules in FAMILIES.values() for operator, maker in rules.items()
}
