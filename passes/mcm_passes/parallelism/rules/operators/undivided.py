"""Ops that every device runs as a whole."""

from __future__ import annotations

from dataclasses import replace

from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_passes.parallelism.rules.operators.composing import OpRule, RuleFamily, Shape, whole

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

RULES = RuleFamily((name, whole) for names in REASONS.values() for name in names)

SHAPE_READERS = ("EyeLike", "RandomNormalLike", "RandomUniformLike", "Shape", "Size")
"""Operators to which only the shape of their operand matters: it may be divided elsewhere."""


@RULES.of(*SHAPE_READERS, inputs=1)
def of_shape(op: OpRule, shape: Shape) -> ShardingRule:
    """`_ -> !n`; where a size is unknown, the operand has to be whole for it to be right."""
    if None in shape:
        return op.whole()
    return whole(replace(op.facts, input_shapes=(None,)))
