"""Sequences, optionals, text and image files: only bytes moved are counted (our choice)."""

from __future__ import annotations

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import Formula, Work, moves_only


def _asks(_node: NodeShapes) -> Work:
    """Asks about its operand without reading it."""
    return Work(reads=((0, 0),))


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
            "TfIdfVectorizer",
        ),
        moves_only,
    ),
    **dict.fromkeys(("OptionalHasElement", "SequenceLength"), _asks),
}
"""Sequences and text of the default domain."""

MICROSOFT_FORMULAS: dict[str, Formula] = {"Tokenizer": moves_only}
"""Text of `com.microsoft`."""
