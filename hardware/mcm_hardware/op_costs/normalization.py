"""Normalisation and softmax: a few passes over each row on the vector unit.

Softmax keeps its maximum and sum while it runs (Milakov and Gimelshein 2018, *Online normalizer
calculation for softmax*, algorithm 3); passes over a row that is at hand cost lane operations and
no SRAM traffic. Counts per element stand in `lane_ops.py` (our derivation).
"""

from __future__ import annotations

from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import DIVIDE, EXP, LOG, NORMALIZE, POWER, SOFTMAX, Formula, Work


def _per_input(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.size(0))


def _skip_norm(lane_ops: int, bias: int, node: NodeShapes) -> Work:
    return Work(lane_ops=(lane_ops + 1 + (1 if node.has(bias) else 0)) * node.size(0))


def _local_response(node: NodeShapes) -> Work:
    return Work(lane_ops=(node.integer("size", 1) + POWER + 2) * node.size(0))


def _embed_layer_norm(node: NodeShapes) -> Work:
    """Three table look-ups, their sum, a layer norm; only the rows looked up are read."""
    out = node.out_size()
    return Work(lane_ops=(2 + NORMALIZE) * out, reads=tuple((i, out) for i in (2, 3, 4)))


FORMULAS: dict[str, Formula] = {
    # Scale and shift of the statistics are folded into one multiply-add.
    "BatchNormalization": partial(_per_input, 1),
    "GroupNormalization": partial(_per_input, NORMALIZE),
    "Hardmax": partial(_per_input, 2),
    "InstanceNormalization": partial(_per_input, NORMALIZE),
    "LRN": _local_response,
    "LayerNormalization": partial(_per_input, NORMALIZE),
    "LogSoftmax": partial(_per_input, SOFTMAX),
    "LpNormalization": partial(_per_input, 4),
    "MeanVarianceNormalization": partial(_per_input, NORMALIZE),
    "NegativeLogLikelihoodLoss": partial(_per_input, 2),
    "RMSNormalization": partial(_per_input, 5),
    # Not of the standard, but onnxruntime registers it there and writes it.
    "SimplifiedLayerNormalization": partial(_per_input, 5),
    "Softmax": partial(_per_input, SOFTMAX),
    "SoftmaxCrossEntropyLoss": partial(_per_input, SOFTMAX + 2),
}
"""Normalisations of the default domain."""

MICROSOFT_FORMULAS: dict[str, Formula] = {
    "BiasSoftmax": partial(_per_input, SOFTMAX + 1),
    "BranchwiseRMSNorm": partial(_per_input, 5),
    "EmbedLayerNormalization": _embed_layer_norm,
    "GatedRMSNorm": partial(_per_input, 5 + EXP + DIVIDE + 2),
    "GroupNorm": partial(_per_input, NORMALIZE),
    "QEmbedLayerNormalization": _embed_layer_norm,
    "QLinearSoftmax": partial(_per_input, EXP + LOG),
    "QOrderedLayerNormalization": partial(_per_input, NORMALIZE + 2),
    "SimplifiedLayerNormalization": partial(_per_input, 5),
    "SkipGroupNorm": partial(_skip_norm, NORMALIZE, 4),
    "SkipLayerNormalization": partial(_skip_norm, NORMALIZE, 4),
    "SkipSimplifiedLayerNormalization": partial(_skip_norm, 5, 3),
}
"""Normalisations of `com.microsoft`."""
