"""Ops that every device runs as a whole."""

from __future__ import annotations

from dataclasses import replace

from mcm_compiler.contracts.sharding.rules import OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators import composing

REASONS: dict[str, tuple[str, ...]] = {
    "random numbers would differ between parts": (
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ),
    "the extent of the result depends on values, or its order on all of them": (
        "NonMaxSuppression",
        "NonZero",
        "StringNormalizer",
        "StringSplit",
        "Unique",
    ),
    "indices count through the whole tensor": ("MaxUnpool",),
    "every element depends on all of them": ("DynamicQuantizeLinear",),
    "small tables and constants": (
        "BlackmanWindow",
        "Constant",
        "EyeLike",
        "HammingWindow",
        "HannWindow",
        "MelWeightMatrix",
        "Range",
        "Shape",
        "Size",
    ),
    "sequences and optional values": (
        "ConcatFromSequence",
        "Optional",
        "OptionalGetElement",
        "OptionalHasElement",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
    ),
    "control flow: bodies are graphs of their own": ("If", "Loop", "Scan"),
    "decodes a file": ("ImageDecoder",),
}
"""Operators by why they are not divided."""

SHAPE_READERS = ("EyeLike", "RandomNormalLike", "RandomUniformLike", "Shape", "Size")
"""Operators to which only the shape of their operand matters: it may be divided elsewhere."""


@composing.known_shapes(inputs=1)
def of_shape(facts: OpFacts, shape: composing.Shape) -> ShardingRule:
    """`_ -> !n`; where a size is unknown, the operand has to be whole for it to be right."""
    if None in shape:
        return composing.whole(facts)
    return composing.whole(replace(facts, input_shapes=(None,)))


RULES: dict[str, RuleMaker] = {
    **{operator: composing.whole for operators in REASONS.values() for operator in operators},
    **dict.fromkeys(SHAPE_READERS, of_shape),
}
