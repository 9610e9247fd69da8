"""Ops that work element by element, with NumPy's broadcasting."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators import composing

UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitCast",
    "BitwiseNot",
    "Cast",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "RegexFullMatch",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
]

BROADCAST = [
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "StringConcat",
    "Sub",
    "Sum",
    "SwiGLU",
    "Where",
    "Xor",
]

FIRST_ONLY = ("CastLike", "Clip")
"""Ops whose other operands are one element, or are read for their type alone."""


@composing.known_shapes(outputs=1)
def broadcast(facts: OpFacts, out: composing.Shape) -> ShardingRule:
    """`*, * -> *`; a size that is unknown in one operand alone might be 1, so it stays whole."""
    shapes = facts.input_shapes
    if any(s is not None and len(s) > len(out) for s in shapes):
        return composing.whole(facts)
    build = composing.RuleBuilder()
    rank = len(out)
    result = [
        build.dim(
            size, composing.PASS if _is_certain(shapes, axis - rank, size) else composing.REPLICATE
        )
        for axis, size in enumerate(out)
    ]
    inputs = [None if s is None else _aligned(result, s) for s in shapes]
    return build.rule(inputs, [result])


def _is_certain(shapes: tuple[composing.Shape | None, ...], axis: int, size: int | None) -> bool:
    """Whether no operand may be broadcast without saying so: the only one that is not cannot."""
    sizes = [s[axis] for s in shapes if s is not None and len(s) >= -axis and s[axis] != 1]
    unknown = sum(s is None for s in sizes)
    return not unknown or len(sizes) == 1 or (size is None and unknown == len(sizes))


def _aligned(result: list[tuple[int, ...]], shape: composing.Shape) -> list[tuple[int, ...]]:
    skipped = len(result) - len(shape)
    return [() if size == 1 else result[skipped + axis] for axis, size in enumerate(shape)]


@composing.known_shapes(inputs=1)
def first_only(facts: OpFacts, shape: composing.Shape) -> ShardingRule:
    """`*, _, _ -> *`."""
    return composing.same_shape(facts, shape)


@composing.known_shapes(inputs=1)
def dropout(facts: OpFacts, shape: composing.Shape) -> ShardingRule:
    """`*, _, _ -> *, *`; where it draws (training mode), each device draws for its part.

    What is drawn from a seed has to be the same on any number of devices, and a part of it cannot
    be drawn alone: then it is whole, unless it is known that nothing is drawn.
    """
    draws = composing.is_given(facts, 2) and facts.constants.get(2) != (0,)
    if draws and "seed" in facts.attributes:
        return composing.whole(facts)
    return composing.same_shape(facts, shape)


@composing.known_shapes(inputs=1, outputs=1)
def quantize(facts: OpFacts, shape: composing.Shape, out: composing.Shape) -> ShardingRule:
    """Scales and zero points per tensor, per index of `axis`, or per block along it."""
    scale = facts.input_shapes[1]
    if scale is None:
        return composing.whole(facts)
    build = composing.RuleBuilder()
    axis = composing.axis_of(facts, 1, len(shape))
    block = int(facts.attributes.get("block_size", 0))
    scale_dims: list[tuple[int, ...]] = []
    if block and len(scale) == len(shape):
        size, groups = shape[axis], scale[axis]
        dims = [build.dim(s) if i != axis else () for i, s in enumerate(shape)]
        scale_dims = list(dims)
        if size is not None and groups is not None and groups * block == size:
            group = build.dim(groups, name="g")
            dims[axis] = group + build.dim(block, composing.REPLICATE, "b")
            scale_dims[axis] = group
        else:
            dims[axis] = build.dim(size, composing.REPLICATE)
            scale_dims[axis] = build.dim(groups, composing.REPLICATE)
    else:
        dims = build.dims(shape)
        if len(scale) == 1 and scale[0] != 1:
            scale_dims = [dims[axis]]
        elif scale not in ((), (1,)):
            return composing.whole(facts)
        else:
            scale_dims = [() for _ in scale]
    rest = [None if s is None else scale_dims for s in facts.input_shapes[1:]]
    return build.rule([dims, *rest], [dims])


RULES: dict[str, RuleMaker] = {
    **dict.fromkeys(UNARY, broadcast),
    **dict.fromkeys(BROADCAST, broadcast),
    **dict.fromkeys(FIRST_ONLY, first_only),
    "Dropout": dropout,
    "QuantizeLinear": quantize,
    "DequantizeLinear": quantize,
}
