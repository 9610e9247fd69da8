"""Normalisation and softmax: a few passes over each row on the vector unit.

Softmax keeps its maximum and sum while it runs (Milakov and Gimelshein 2018, *Online normalizer
calculation for softmax*, algorithm 3); passes over a row that is at hand cost lane operations and
no SRAM traffic. Counts per element stand in `work.py` (our derivation).
"""

from __future__ import annotations

from functools import partial

from mcm_hardware.op_costs import work
from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Work, joined, ops, per_input


def _skip_norm(lane_ops: int, bias: int, node: NodeShapes) -> Work:
    return Work(lane_ops=(lane_ops + 1 + (1 if node.has(bias) else 0)) * node.size(0))


def _local_response(node: NodeShapes) -> Work:
    return Work(lane_ops=(node.integer("size", 1) + work.POWER + 2) * node.size(0))


def _embed_layer_norm(node: NodeShapes) -> Work:
    """Three table look-ups, their sum, a layer norm; only the rows looked up are read."""
    out = node.out_size()
    return Work(lane_ops=(2 + work.NORMALIZE) * out, reads=tuple((i, out) for i in (2, 3, 4)))


FORMULAS = joined(
    # Scale and shift of the statistics are folded into one multiply-add.
    ops(per_input(1), "BatchNormalization"),
    ops(per_input(2), "Hardmax NegativeLogLikelihoodLoss"),
    ops(per_input(4), "LpNormalization"),
    # SimplifiedLayerNormalization is not of the standard, but onnxruntime registers it there and
    # writes it.
    ops(
        per_input(5),
        "RMSNormalization SimplifiedLayerNormalization",
        "BranchwiseRMSNorm SimplifiedLayerNormalization",
    ),
    ops(
        per_input(work.NORMALIZE),
        "GroupNormalization InstanceNormalization LayerNormalization MeanVarianceNormalization",
        "GroupNorm",
    ),
    ops(per_input(work.NORMALIZE + 2), "", "QOrderedLayerNormalization"),
    ops(per_input(5 + work.EXP + work.DIVIDE + 2), "", "GatedRMSNorm"),
    ops(per_input(work.SOFTMAX), "LogSoftmax Softmax"),
    ops(per_input(work.SOFTMAX + 1), "", "BiasSoftmax"),
    ops(per_input(work.SOFTMAX + 2), "SoftmaxCrossEntropyLoss"),
    ops(per_input(work.EXP + work.LOG), "", "QLinearSoftmax"),
    ops(_local_response, "LRN"),
    ops(_embed_layer_norm, "", "EmbedLayerNormalization QEmbedLayerNormalization"),
    ops(partial(_skip_norm, work.NORMALIZE, 4), "", "SkipGroupNorm SkipLayerNormalization"),
    ops(partial(_skip_norm, 5, 3), "", "SkipSimplifiedLayerNormalization"),
)
"""Normalisations."""
