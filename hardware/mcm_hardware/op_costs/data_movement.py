"""Ops that move data and compute nothing: SRAM bandwidth is all that they take (our derivation).

What counts is which elements are read; every result is written once.
"""

from __future__ import annotations

from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Work, asks, joined, moves_only, ops, per_result


def view(_node: NodeShapes) -> Work:
    """The output is the input's memory under another shape; the shape operand is not read."""
    return Work(execution="view")


def _constant(_node: NodeShapes) -> Work:
    return Work(execution="free")


def _reads_results(node: NodeShapes) -> Work:
    """Of the first operand, only the elements that reach the output are read."""
    return Work(reads=((0, min(node.out_size(), node.size(0))),))


def _gathers(node: NodeShapes) -> Work:
    """A row may be gathered more than once, so that more may be read than the table holds."""
    return Work(reads=((0, node.out_size()),))


def _random_like(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.out_size(), reads=((0, 0),))


_XORSHIFT = 6
"""Lane operations of one random number (Marsaglia 2003)."""

FORMULAS = joined(
    ops(view, "Reshape Squeeze Unsqueeze Flatten", "ExpandDims"),
    ops(_constant, "Constant"),
    ops(asks, "Shape Size"),
    ops(_gathers, "Gather GatherElements GatherND", "GatherND TorchEmbedding"),
    ops(_reads_results, "Slice Compress CenterCropPad Pad Tile Expand", "Pad"),
    # Dropout is a copy at inference; a mask, where wanted, is all ones. Relays are Identities, and
    # a relay copies from a receive to a send buffer.
    ops(
        moves_only,
        "BitCast Concat ConstantOfShape DepthToSpace Dropout EyeLike Identity OneHot Range "
        "ReverseSequence Scatter ScatterElements ScatterND SpaceToDepth Split TensorScatter "
        "Transpose Trilu",
        "BifurcationDetector QLinearConcat Range RemovePadding RestorePadding Trilu UnfoldTensor",
    ),
    ops(per_result(_XORSHIFT), "Bernoulli Multinomial RandomUniform"),
    ops(per_result(3 * _XORSHIFT), "RandomNormal"),
    ops(partial(_random_like, _XORSHIFT), "RandomUniformLike"),
    ops(partial(_random_like, 3 * _XORSHIFT), "RandomNormalLike"),
)
"""Data movement."""
