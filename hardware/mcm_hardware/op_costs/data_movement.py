"""Ops that move data and compute nothing: SRAM bandwidth is all that they take (our derivation).

What counts is which elements are read; every result is written once.
"""

from __future__ import annotations

from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Formula, Work, moves_only


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


def _reads_shape(node: NodeShapes) -> Work:
    return Work(reads=((0, 0),))


def _random(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.out_size())


def _random_like(lane_ops: int, node: NodeShapes) -> Work:
    return Work(lane_ops=lane_ops * node.out_size(), reads=((0, 0),))


_XORSHIFT = 6
"""Lane operations of one random number (Marsaglia 2003)."""

FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten"), view),
    "Constant": _constant,
    **dict.fromkeys(("Shape", "Size"), _reads_shape),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), _gathers),
    **dict.fromkeys(
        ("Slice", "Compress", "CenterCropPad", "Pad", "Tile", "Expand"), _reads_results
    ),
    **dict.fromkeys(
        (
            "BitCast",
            "Concat",
            "ConstantOfShape",
            "DepthToSpace",
            # A copy at inference; a mask, where wanted, is all ones.
            "Dropout",
            "EyeLike",
            # Relays are Identities, and a relay copies from a receive to a send buffer.
            "Identity",
            "OneHot",
            "Range",
            "ReverseSequence",
            "Scatter",
            "ScatterElements",
            "ScatterND",
            "SpaceToDepth",
            "Split",
            "TensorScatter",
            "Transpose",
            "Trilu",
        ),
        moves_only,
    ),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomUniform"), partial(_random, _XORSHIFT)),
    "RandomNormal": partial(_random, 3 * _XORSHIFT),
    "RandomUniformLike": partial(_random_like, _XORSHIFT),
    "RandomNormalLike": partial(_random_like, 3 * _XORSHIFT),
}
"""Data movement of the default domain."""

MICROSOFT_FORMULAS: dict[str, Formula] = {
    "BifurcationDetector": moves_only,
    "ExpandDims": view,
    "GatherND": _gathers,
    "Pad": _reads_results,
    "QLinearConcat": moves_only,
    "Range": moves_only,
    "RemovePadding": moves_only,
    "RestorePadding": moves_only,
    "TorchEmbedding": _gathers,
    "Trilu": moves_only,
    "UnfoldTensor": moves_only,
}
"""Data movement of `com.microsoft`."""
