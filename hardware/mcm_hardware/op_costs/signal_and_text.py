"""Signal processing, sequences and text.

Of sequences, optionals, text and image files only bytes moved are counted (our choice).
"""

from __future__ import annotations

import math

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import SINE, Work, asks, joined, moves_only, ops, per_result


def _transform(points: int, length: int) -> int:
    """Cooley and Tukey 1965, radix 2: 5 n log2 n real operations per transform of n points."""
    return 5 * points * max(math.ceil(math.log2(max(length, 2))), 1)


def _dft(node: NodeShapes) -> Work:
    rank = len(node.dims(0))
    if node.has(2):
        given = node.scalar(2)
        axis = int(given) if given is not None else -2
    else:
        axis = node.integer("axis", -2 if rank > 2 else 0)
    wanted = node.scalar(1)
    length = int(wanted) if wanted is not None else node.dim(0, axis)
    # The last axis holds real and imaginary parts.
    points = max(node.size(0) // max(node.dim(0, -1), 1), node.out_size() // 2)
    return Work(lane_ops=_transform(points, length))


def _stft(node: NodeShapes) -> Work:
    """`[batch, frames, bins, 2]`: a windowed transform per frame."""
    dims = node.out_dims()
    frames = math.prod(dims[:2])
    length = node.size(2) or (int(node.scalar(3) or 0)) or (dims[2] if len(dims) > 2 else 1)
    return Work(lane_ops=_transform(frames * length, length) + frames * length)


def _last_axis(node: NodeShapes) -> Work:
    points = max(node.size(0), node.out_size())
    return Work(lane_ops=_transform(points, max(node.dim(0, -1), 2)))


def _vocabulary(node: NodeShapes) -> Work:
    """One entry of a hashed table per element of the operand."""
    entries = max(node.count_of("pool_int64s"), node.count_of("pool_strings"), 1)
    return Work(data_share=min(1.0, node.size(0) / entries))


FORMULAS = joined(
    ops(per_result(SINE + 1), "HammingWindow HannWindow"),
    ops(per_result(2 * (SINE + 1)), "BlackmanWindow"),
    ops(_dft, "DFT"),
    ops(_stft, "STFT"),
    ops(_last_axis, "", "Irfft Rfft"),
    ops(moves_only, "MelWeightMatrix"),
    ops(
        moves_only,
        "ConcatFromSequence ImageDecoder Optional OptionalGetElement RegexFullMatch SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SplitToSequence StringConcat "
        "StringNormalizer StringSplit",
        "Tokenizer",
    ),
    ops(_vocabulary, "TfIdfVectorizer"),
    ops(asks, "OptionalHasElement SequenceLength"),
)
"""Signal processing, sequences and text."""
