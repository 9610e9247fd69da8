"""Trees, linear models and feature transforms of `ai.onnx.ml` (our derivation)."""

from __future__ import annotations

import math
from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import EXP, Formula, Gemm, Work, moves_only


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


def _per_element(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.out_size())


ML_FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"), _trees),
    **dict.fromkeys(("LinearClassifier", "LinearRegressor"), _linear),
    **dict.fromkeys(("SVMClassifier", "SVMRegressor"), _support_vectors),
    "Binarizer": partial(_per_element, 1),
    "Imputer": partial(_per_element, 2),
    "Normalizer": partial(_per_element, 4),
    "OneHotEncoder": partial(_per_element, 1),
    "Scaler": partial(_per_element, 2),
    **dict.fromkeys(("CategoryMapper", "LabelEncoder"), _lookups),
    **dict.fromkeys(
        (
            "ArrayFeatureExtractor",
            "CastMap",
            "DictVectorizer",
            "FeatureVectorizer",
            "ZipMap",
        ),
        moves_only,
    ),
}
"""All of `ai.onnx.ml`."""
