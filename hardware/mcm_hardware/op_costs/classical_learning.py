"""Trees, linear models and feature transforms of `ai.onnx.ml` (our derivation)."""

from __future__ import annotations

import math

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import EXP, Gemm, Work, joined, moves_only, ops, per_result


def _trees(node: NodeShapes) -> Work:
    """A walk from the root to a leaf per row and tree; balanced trees are assumed."""
    ids = node.integers("nodes_treeids")
    nodes = len(ids) or node.count_of("nodes_featureids")
    trees = max(len(set(ids)) or node.count_of("tree_roots"), 1)
    depth = math.ceil(math.log2(nodes / trees + 1)) if nodes else 1
    rows = node.size(0) // max(node.dim(0, -1), 1)
    visited = rows * trees * max(depth, 1)
    # Per level: fetch the feature, compare, choose the child.
    return Work(lane_ops=3 * visited, data_share=min(1.0, visited / max(nodes, 1)))


def _linear(node: NodeShapes) -> Work:
    width = max(node.dim(0, -1), 1)
    rows = node.size(0) // width
    targets = max(node.count_of("coefficients") // width, 1)
    return Work((Gemm(1, rows, targets, width),), 2 * rows * targets)


def _support_vectors(node: NodeShapes) -> Work:
    """A kernel product with each support vector, then their weighted sum."""
    width = max(node.dim(0, -1), 1)
    rows = node.size(0) // width
    vectors = max(node.count_of("support_vectors") // width, 1)
    return Work((Gemm(1, rows, vectors, width),), (EXP + 2) * rows * vectors)


def _lookups(node: NodeShapes) -> Work:
    """One entry of a hashed table per element."""
    entries = max((node.count_of(name) for name in node.node.attributes), default=0)
    return Work(data_share=min(1.0, node.out_size() / max(entries, 1)))


FORMULAS = joined(
    *(
        ops(formula, names, domain="ai.onnx.ml")
        for formula, names in (
            (_trees, "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"),
            (_linear, "LinearClassifier LinearRegressor"),
            (_support_vectors, "SVMClassifier SVMRegressor"),
            (per_result(1), "Binarizer OneHotEncoder"),
            (per_result(2), "Imputer Scaler"),
            (per_result(4), "Normalizer"),
            (_lookups, "CategoryMapper LabelEncoder"),
            (moves_only, "ArrayFeatureExtractor CastMap DictVectorizer FeatureVectorizer ZipMap"),
        )
    )
)
"""All of `ai.onnx.ml`."""
