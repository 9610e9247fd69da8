"""Normalisations: the axis that is normalised is needed whole."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import Dim, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REPLICATE,
    OpRule,
    RuleFamily,
    Shape,
)

RULES = RuleFamily()


@RULES.of("Softmax", "LogSoftmax", "Hardmax", inputs=1)
def softmax(op: OpRule, shape: Shape) -> ShardingRule:
    """`* !n -> * !n`; before opset 13, all dimensions from `axis` on are one."""
    if op.facts.version >= 13:
        return op.same_shape(shape, {op.axis(-1, len(shape))})
    return op.same_shape(shape, range(op.axis(1, len(shape)), len(shape)))


@RULES.of("LpNormalization", inputs=1)
def lp(op: OpRule, shape: Shape) -> ShardingRule:
    """`a !n -> a !n` along `axis`."""
    return op.same_shape(shape, {op.axis(-1, len(shape))})


@RULES.of("LRN", inputs=1)
def local_response(op: OpRule, shape: Shape) -> ShardingRule:
    """`n !c y x -> n !c y x`: a window over the channels."""
    return op.same_shape(shape, {1})


@RULES.of("MeanVarianceNormalization", inputs=1)
def mean_variance(op: OpRule, shape: Shape) -> ShardingRule:
    """The dimensions `axes` are needed whole."""
    axes = op.attributes.get("axes", (0, 2, 3))
    return op.same_shape(shape, {int(a) % len(shape) for a in axes})


@RULES.of("DFT", inputs=1, outputs=1)
def fourier(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """DFT `a !n !k, _, _ -> a !m !l`, where the last dimension holds the complex parts."""
    given = op.constants.get(2)
    if given is None and len(op.inputs) > 2:
        return op.whole()
    rank = len(shape)
    default = 1 if op.facts.version < 20 else -2
    axis = (given[0] if given else int(op.attributes.get("axis", default))) % rank
    dims = op.dims(shape, (axis, rank - 1))
    made = list(dims)
    made[axis] = op.needed(out[axis])
    made[-1] = op.needed(out[-1])
    return op.rule([dims], [made])


@RULES.of("LayerNormalization", "RMSNormalization", inputs=1)
def layer(op: OpRule, shape: Shape) -> ShardingRule:
    """`* !n, !n, !n -> * !n, * 1, * 1`, where `n` are the dimensions from `axis` on."""
    axis = op.axis(-1, len(shape))
    dims = op.dims(shape, range(axis, len(shape)))

    def scale(given: Shape | None) -> list[Dim] | None:
        if given is None or len(given) > len(dims):
            return None
        own = dims[len(dims) - len(given) :]
        return [() if size == 1 else dim for size, dim in zip(given, own, strict=True)]

    statistics: list[Dim] = [() if i >= axis else dim for i, dim in enumerate(dims)]
    outputs = [dims, *[statistics] * (len(op.outputs) - 1)]
    return op.rule([dims, *map(scale, op.inputs[1:])], outputs)


@RULES.of("BatchNormalization", inputs=1)
def batch(op: OpRule, shape: Shape) -> ShardingRule:
    """`n c y x, c, c, c, c -> n c y x`; in training all but the channels are needed whole."""
    training = bool(op.attributes.get("training_mode", 0)) or len(op.outputs) > 1
    dims = [
        op.dim(s, REPLICATE if training and i != 1 else PASS, "nc"[i] if i < 2 else "")
        for i, s in enumerate(shape)
    ]
    channels = [dims[1] if len(shape) > 1 else ()]
    outputs = [dims, *[channels] * (len(op.outputs) - 1)]
    return op.rule([dims, *[channels] * 4], outputs)


@RULES.of("InstanceNormalization", inputs=1)
def instance(op: OpRule, shape: Shape) -> ShardingRule:
    """`n c !y !x, c, c -> n c !y !x`."""
    dims = [
        op.dim(s, PASS if i < 2 else REPLICATE, "nc"[i] if i < 2 else "")
        for i, s in enumerate(shape)
    ]
    return op.rule([dims, [dims[1]], [dims[1]]], [dims])


@RULES.of("GroupNormalization", inputs=1, outputs=1)
def group(op: OpRule, shape: Shape, out: Shape) -> ShardingRule:
    """`n (g !c) !y !x, (g !c), (g !c) -> n (g !c) !y !x`; scales are per group before opset 21."""
    groups = int(op.attributes.get("num_groups", 1))
    if shape[1] is None:
        return op.whole()
    spatial = " ".join(f"!s{i}" for i in range(len(shape) - 2))
    scale = "g" if op.facts.version < 21 else "(g !c)"
    image = f"n (g !c) {spatial}"
    return op.spelled([image, scale, scale], [image], {"g": groups})
