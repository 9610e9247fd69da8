"""Sequences, optionals, text and image files: only bytes moved are counted (our choice)."""

from __future__ import annotations

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Work, asks, joined, moves_only, ops


def _vocabulary(node: NodeShapes) -> Work:
    """One entry of a hashed table per element of the operand."""
    entries = max(node.count_of("pool_int64s"), node.count_of("pool_strings"), 1)
    return Work(data_share=min(1.0, node.size(0) / entries))


FORMULAS = joined(
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
"""Sequences and text."""
