"""Reductions, normalisations, scans, selections and small dense algebra on the vector unit.

A reduction folds each element of its input once; its tree of partial results over the lanes is
not counted (our derivation, where nothing else is said).
"""

from __future__ import annotations

import math
from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import (
    DIVIDE,
    EXP,
    LOG,
    NORMALIZE,
    POWER,
    SOFTMAX,
    Work,
    joined,
    ops,
    per_input,
)


def _log2(count: int) -> int:
    return max(math.ceil(math.log2(count)), 1) if count > 1 else 1


def _sort(node: NodeShapes) -> Work:
    """A bitonic network: about log^2 / 2 compare-exchanges per element (Batcher 1968)."""
    depth = _log2(node.size(0))
    return Work(lane_ops=node.size(0) * depth * (depth + 1) // 2)


def _top_k(node: NodeShapes) -> Work:
    """Every element against a sorted list of the k best: a binary search each."""
    axis = node.integer("axis", -1)
    kept = node.out_dims()[axis] if -len(node.out_dims()) <= axis < len(node.out_dims()) else 1
    return Work(lane_ops=node.size(0) * (_log2(kept) + 1))


def _cubic(multiples_of_a_third: int, node: NodeShapes) -> Work:
    """Gaussian elimination: n^3 / 3 multiply-adds for a factorisation, n^3 for an inverse.

    Golub and Van Loan 2013, *Matrix Computations*, section 3.2.
    """
    order = node.dim(0, -1)
    return Work(lane_ops=node.size(0) * order * multiples_of_a_third // 3)


def _suppression(node: NodeShapes) -> Work:
    """Scores are sorted per class; each box kept is compared with all boxes of its class."""
    boxes, classes = node.dim(0, 1), node.dim(1, 1)
    kept = node.scalar(2)
    per_class = min(int(kept), boxes) if kept is not None and 0 <= kept < boxes else boxes
    batch = node.dim(0, 0)
    return Work(lane_ops=batch * classes * boxes * (_log2(boxes) + 12 * per_class))


def _skip_norm(lane_ops: int, bias: int, node: NodeShapes) -> Work:
    return Work(lane_ops=(lane_ops + 1 + (1 if node.has(bias) else 0)) * node.size(0))


def _local_response(node: NodeShapes) -> Work:
    return Work(lane_ops=(node.integer("size", 1) + POWER + 2) * node.size(0))


def _embed_layer_norm(node: NodeShapes) -> Work:
    """Three table look-ups, their sum, a layer norm; only the rows looked up are read."""
    out = node.out_size()
    return Work(lane_ops=(2 + NORMALIZE) * out, reads=tuple((i, out) for i in (2, 3, 4)))


FORMULAS = joined(
    ops(
        per_input(1),
        "CumProd CumSum ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare",
        "ReduceSumInteger SampleOp",
    ),
    ops(per_input(2), "ArgMax ArgMin NonZero ReduceL1", "QLinearReduceMean"),
    ops(per_input(EXP + 3), "ReduceLogSumExp"),
    ops(partial(_cubic, 1), "Det"),
    ops(partial(_cubic, 3), "", "Inverse"),
    ops(_suppression, "NonMaxSuppression"),
    ops(_top_k, "TopK"),
    ops(_sort, "Unique", "Unique"),
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
        per_input(NORMALIZE),
        "GroupNormalization InstanceNormalization LayerNormalization MeanVarianceNormalization",
        "GroupNorm",
    ),
    ops(per_input(NORMALIZE + 2), "", "QOrderedLayerNormalization"),
    ops(per_input(5 + EXP + DIVIDE + 2), "", "GatedRMSNorm"),
    ops(per_input(SOFTMAX), "LogSoftmax Softmax"),
    ops(per_input(SOFTMAX + 1), "", "BiasSoftmax"),
    ops(per_input(SOFTMAX + 2), "SoftmaxCrossEntropyLoss"),
    ops(per_input(EXP + LOG), "", "QLinearSoftmax"),
    ops(_local_response, "LRN"),
    ops(_embed_layer_norm, "", "EmbedLayerNormalization QEmbedLayerNormalization"),
    ops(partial(_skip_norm, NORMALIZE, 4), "", "SkipGroupNorm SkipLayerNormalization"),
    ops(partial(_skip_norm, 5, 3), "", "SkipSimplifiedLayerNormalization"),
)
"""Reductions and normalisations."""
