"""A matrix product with what follows it: bias, residual, activation."""

from __future__ import annotations

from mcm_passes.rewriting.fusion_rules.epilogue import with_epilogue
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

MATMUL_BIAS_ACTIVATION = FusionRule(
    "matmul_bias_activation",
    frozenset({"Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"}),
    with_epilogue,
)
