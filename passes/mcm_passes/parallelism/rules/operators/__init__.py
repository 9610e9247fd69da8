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

FAMILIES: dict[str, dict[str, RuleMaker]] = {
    "elementwise": elementwise.RULES,
    "reductions": reductions.RULES,
    "products": products.RULES,
    "convolutions": convolutions.RULES,
    "pooling": pooling.RULES,
    "normalisations": normalisations.RULES,
    "attention": attention.RULES,
    "rearranging": rearranging.RULES,
    "extents": extents.RULES,
    "indexing": indexing.RULES,
    "losses": losses.RULES,
    "batch_only": batch_only.RULES,
    "undivided": undivided.RULES,
}

ONNX_RULES: dict[str, RuleMaker] = {
    operator: maker for rules in FAMILIES.values() for operator, maker in rules.items()
}

MICROSOFT_RULES: dict[str, RuleMaker] = {
    "com.microsoft::GroupQueryAttention": attention.grouped_query_attention,
    "com.microsoft::MatMulNBits": products.blocked_matmul,
    "com.microsoft::MultiHeadAttention": attention.multi_head_attention,
}
