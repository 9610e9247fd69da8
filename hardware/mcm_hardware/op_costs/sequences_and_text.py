"""Sequences, optionals, text and image files: only bytes moved are counted (our choice)."""

from __future__ import annotations

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Formula, Work, moves_only


def _asks(_node: NodeShapes) -> Work:
    """Asks about its operand without reading it."""
    return Work(reads=((0, 0),))


def _vocabulary(node: NodeShapes) -> Work:
    """One entry of a hashed table per element of the operand."""
    entries = max(node.count_of("pool_int64s"), node.count_of("pool_strings"), 1)
    return Work(data_share=min(1.0, node.size(0) / entries))


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(
        (
            "ConcatFromSequence",
            "ImageDecoder",
            "Optional",
            "OptionalGetElement",
            "RegexFullMatch",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SplitToSequence",
            "StringConcat",
            "StringNormalizer",
            "StringSplit",
        ),
        moves_only,
    ),
    "TfIdfVectorizer": _vocabulary,
    **dict.fromkeys(("OptionalHasElement", "SequenceLength"), _asks),
}
"""Sequences and text of the default domain."""

MICROSOFT_FORMULAS: dict[str, Formula] = {"Tokenizer": moves_only}
"""Text of `com.microsoft`."""
