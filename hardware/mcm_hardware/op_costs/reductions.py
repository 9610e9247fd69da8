"""Reductions, normalisations, scans, selections and small dense algebra on the vector unit.

A reduction folds each element of its input once; its tree of partial results over the lanes is
not counted (our derivation, where nothing else is said).

Softmax keeps its maximum and sum while it runs (Milakov and Gimelshein 2018, *Online normalizer
calculation for softmax*, algorithm 3); passes over a row that is at hand cost lane operations and
no SRAM traffic. Counts per element stand in `work.py` (our derivation).
"""

from __future__ import annotations

import math
from functools import partial

from mcm_hardware.op_costs import work
from mcm_hardware.op_costs.node_shapes import NodeShapes


def _log2(count: int) -> int:
    return max(math.ceil(math.log2(count)), 1) if count > 1 else 1


def _sort(node: NodeShapes) -> work.Work:
    """A bitonic network: about log^2 / 2 compare-exchanges per element (Batcher 1968)."""
    depth = _log2(node.size(0))
    return work.Work(lane_ops=node.size(0) * depth * (depth + 1) // 2)


def _top_k(node: NodeShapes) -> work.Work:
    """Every element against a sorted list of the k best: a binary search each."""
    axis = node.integer("axis", -1)
    kept = node.out_dims()[axis] if -len(node.out_dims()) <= axis < len(node.out_dims()) else 1
    return work.Work(lane_ops=node.size(0) * (_log2(kept) + 1))


def _cubic(multiples_of_a_third: int, node: NodeShapes) -> work.Work:
    """Gaussian elimination: n^3 / 3 multiply-adds for a factorisation, n^3 for an inverse.

    Golub and Van Loan 2013, *Matrix Computations*, section 3.2.
    """
    order = node.dim(0, -1)
    return work.Work(lane_ops=node.size(0) * order * multiples_of_a_third // 3)


def _suppression(node: NodeShapes) -> work.Work:
    """Scores are sorted per class; each box kept is compared with all boxes of its class."""
    boxes, classes = node.dim(0, 1), node.dim(1, 1)
    kept = node.scalar(2)
    per_class = min(int(kept), boxes) if kept is not None and 0 <= kept < boxes else boxes
    batch = node.dim(0, 0)
    return work.Work(lane_ops=batch * classes * boxes * (_log2(boxes) + 12 * per_class))


def _skip_norm(lane_ops: int, bias: int, node: NodeShapes) -> work.Work:
    return work.Work(lane_ops=(lane_ops + 1 + (1 if node.has(bias) else 0)) * node.size(0))


def _local_response(node: NodeShapes) -> work.Work:
    return work.Work(lane_ops=(node.integer("size", 1) + work.POWER + 2) * node.size(0))


def _embed_layer_norm(node: NodeShapes) -> work.Work:
    """Three table look-ups, their sum, a layer norm; only the rows looked up are read."""
    out = node.out_size()
    return work.Work(lane_ops=(2 + work.NORMALIZE) * out, reads=tuple((i, out) for i in (2, 3, 4)))


NORMALIZATION = work.joined(
    # Scale and shift of the statistics are folded into one multiply-add.
    work.ops(work.per_input(1), "BatchNormalization"),
    work.ops(work.per_input(2), "Hardmax NegativeLogLikelihoodLoss"),
    work.ops(work.per_input(4), "LpNormalization"),
    # SimplifiedLayerNormalization is not of the standard, but onnxruntime registers it there and
    # writes it.
    work.ops(
        work.per_input(5),
        "RMSNormalization SimplifiedLayerNormalization",
        "BranchwiseRMSNorm SimplifiedLayerNormalization",
    ),
    work.ops(
        work.per_input(work.NORMALIZE),
        "GroupNormalization InstanceNormalization LayerNormalization MeanVarianceNormalization",
        "GroupNorm",
    ),
    work.ops(work.per_input(work.NORMALIZE + 2), "", "QOrderedLayerNormalization"),
    work.ops(work.per_input(5 + work.EXP + work.DIVIDE + 2), "", "GatedRMSNorm"),
    work.ops(work.per_input(work.SOFTMAX), "LogSoftmax Softmax"),
    work.ops(work.per_input(work.SOFTMAX + 1), "", "BiasSoftmax"),
    work.ops(work.per_input(work.SOFTMAX + 2), "SoftmaxCrossEntropyLoss"),
    work.ops(work.per_input(work.EXP + work.LOG), "", "QLinearSoftmax"),
    work.ops(_local_response, "LRN"),
    work.ops(_embed_layer_norm, "", "EmbedLayerNormalization QEmbedLayerNormalization"),
    work.ops(partial(_skip_norm, work.NORMALIZE, 4), "", "SkipGroupNorm SkipLayerNormalization"),
    work.ops(partial(_skip_norm, 5, 3), "", "SkipSimplifiedLayerNormalization"),
)
"""Normalisations."""

FORMULAS = work.joined(
    work.ops(
        work.per_input(1),
        "CumProd CumSum ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare",
        "ReduceSumInteger SampleOp",
    ),
    work.ops(work.per_input(2), "ArgMax ArgMin NonZero ReduceL1", "QLinearReduceMean"),
    work.ops(work.per_input(work.EXP + 3), "ReduceLogSumExp"),
    work.ops(partial(_cubic, 1), "Det"),
    work.ops(partial(_cubic, 3), "", "Inverse"),
    work.ops(_suppression, "NonMaxSuppression"),
    work.ops(_top_k, "TopK"),
    work.ops(_sort, "Unique", "Unique"),
    NORMALIZATION,
)
"""Reductions and normalisations."""
