"""Ops that work element by element, with NumPy's broadcasting."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_compiler.graph.op_classes import ELEMENTWISE_OPS
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REPLICATE,
    OpRule,
    RuleFamily,
    Shape,
)

RULES = RuleFamily()

BROADCAST = ELEMENTWISE_OPS | {"BitCast", "RegexFullMatch", "StringConcat", "SwiGLU"}
"""Ops that work element by element; those with another rule below are the exceptions."""


@RULES.of(*(name for name in sorted(BROADCAST) if "." not in name), outputs=1)
def broadcast(op: OpRule, out: Shape) -> ShardingRule:
    """`*, * -> *`; a size that is unknown in one operand alone might be 1, so it stays whole."""
    shapes = op.inputs
    if any(s is not None and len(s) > len(out) for s in shapes):
        return op.whole()
    rank = len(out)
    result = [
        op.dim(size, PASS if _is_certain(shapes, axis - rank, size) else REPLICATE)
        for axis, size in enumerate(out)
    ]
    inputs = [None if s is None else _aligned(result, s) for s in shapes]
    return op.rule(inputs, [result])


def _is_certain(shapes: tuple[Shape | None, ...], axis: int, size: int | None) -> bool:
    """Return whether no operand may be broadcast silently: the only one that is not cannot."""
    sizes = [s[axis] for s in shapes if s is not None and len(s) >= -axis and s[axis] != 1]
    unknown = sum(s is None for s in sizes)
    return not unknown or len(sizes) == 1 or (size is None and unknown == len(sizes))


def _aligned(result: list[tuple[int, ...]], shape: Shape) -> list[tuple[int, ...]]:
    skipped = len(result) - len(shape)
    return [() if size == 1 else result[skipped + axis] for axis, size in enumerate(shape)]


@RULES.of("CastLike", "Clip", inputs=1)
def first_only(op: OpRule, shape: Shape) -> ShardingRule:
    """`*, _, _ -> *`: others are one element, or are read for their type alone."""
    return op.same_shape(shape)


@RULES.of("Dropout", inputs=1)
def dropout(op: OpRule, shape: Shape) -> ShardingRule:
    """`*, _, _ -> *, *`; where it draws (training mode), each device draws for its part.

    Values drawn from a seed have to be the same on any number of devices, and a part of them cannot
    be drawn alone. Then the op is whole, unless it is known that nothing is drawn.
    """
    draws = op.is_given(2) and op.constants.get(2) != (0,)
    if draws and "seed" in op.attributes:
        return op.whole()
    return op.same_shape(shape)


@RULES.of("QuantizeLinear", "DequantizeLinear", inputs=1, outputs=1)
def quantize(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """Scales and zero points per tensor, per index of `axis`, or per block along it."""
    scale = op.inputs[1]
    if scale is None:
        return op.whole()
    axis = op.axis(1, len(shape))
    block = int(op.attributes.get("block_size", 0))
    scale_dims: list[tuple[int, ...]] = []
    if block and len(scale) == len(shape):
        size, groups = shape[axis], scale[axis]
        dims = [op.dim(s) if i != axis else () for i, s in enumerate(shape)]
        scale_dims = list(dims)
        if size is not None and groups is not None and groups * block == size:
            group = op.dim(groups, name="g")
            dims[axis] = group + op.needed(block, "b")
            scale_dims[axis] = group
        else:
            dims[axis] = op.needed(size)
            scale_dims[axis] = op.needed(groups)
    else:
        dims = op.dims(shape)
        if len(scale) == 1 and scale[0] != 1:
            scale_dims = [dims[axis]]
        elif scale not in ((), (1,)):
            return op.whole()
        else:
            scale_dims = [() for _ in scale]
    rest = [None if s is None else scale_dims for s in op.inputs[1:]]
    return op.rule([dims, *rest], [dims])
