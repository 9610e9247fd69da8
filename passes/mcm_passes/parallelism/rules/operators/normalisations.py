"""Normalisations: the axis that is normalised is needed whole."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import Dim, OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REPLICATE,
    RuleBuilder,
    Shape,
    axis_of,
    known_shapes,
    same_shape,
    spelled,
    whole,
)


@known_shapes(inputs=1)
def softmax(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`* !n -> * !n`; before opset 13, all dimensions from `axis` on are one."""
    if facts.version >= 13:
        return same_shape(facts, shape, {axis_of(facts, -1, len(shape))})
    return same_shape(facts, shape, set(range(axis_of(facts, 1, len(shape)), len(shape))))


@known_shapes(inputs=1)
def lp(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`a !n -> a !n` along `axis`."""
    return same_shape(facts, shape, {axis_of(facts, -1, len(shape))})


@known_shapes(inputs=1)
def local_response(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`n !c y x -> n !c y x`: a window over the channels."""
    return same_shape(facts, shape, {1})


@known_shapes(inputs=1)
def mean_variance(facts: OpFacts, shape: Shape) -> ShardingRule:
    """The dimensions `axes` are needed whole."""
    axes = facts.attributes.get("axes", (0, 2, 3))
    return same_shape(facts, shape, {int(a) % len(shape) for a in axes})


@known_shapes(inputs=1, outputs=1)
def fourier(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """DFT `a !n !k, _, _ -> a !m !l`, where the last dimension holds the complex parts."""
    given = facts.constants.get(2)
    if given is None and len(facts.input_shapes) > 2:
        return whole(facts)
    rank = len(shape)
    default = 1 if facts.version < 20 else -2
    axis = (given[0] if given else int(facts.attributes.get("axis", default))) % rank
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i in (axis, rank - 1) else PASS) for i, s in enumerate(shape)]
    made = list(dims)
    made[axis] = build.dim(out[axis], REPLICATE)
    made[-1] = build.dim(out[-1], REPLICATE)
    return build.rule([dims, *[None] * (len(facts.input_shapes) - 1)], [made])


@known_shapes(inputs=1)
def layer(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`* !n, !n, !n -> * !n, * 1, * 1`, where `n` are the dimensions from `axis` on."""
    axis = axis_of(facts, -1, len(shape))
    build = RuleBuilder()
    dims = [build.dim(s, REPLICATE if i >= axis else PASS) for i, s in enumerate(shape)]

    def scale(given: Shape | None) -> list[Dim] | None:
        if given is None or len(given) > len(dims):
            return None
        own = dims[len(dims) - len(given) :]
        return [() if size == 1 else dim for size, dim in zip(given, own, strict=True)]

    statistics: list[Dim] = [() if i >= axis else dim for i, dim in enumerate(dims)]
    outputs = [dims, *[statistics] * (len(facts.output_shapes) - 1)]
    return build.rule([dims, *map(scale, facts.input_shapes[1:])], outputs)


@known_shapes(inputs=1)
def batch(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`n c y x, c, c, c, c -> n c y x`; in training all but the channels are needed whole."""
    training = bool(facts.attributes.get("training_mode", 0)) or len(facts.output_shapes) > 1
    build = RuleBuilder()
    dims = [
        build.dim(s, REPLICATE if training and i != 1 else PASS, "nc"[i] if i < 2 else "")
        for i, s in enumerate(shape)
    ]
    channels = [dims[1] if len(shape) > 1 else ()]
    outputs = [dims, *[channels] * (len(facts.output_shapes) - 1)]
    return build.rule([dims, *[channels] * 4], outputs)


@known_shapes(inputs=1)
def instance(facts: OpFacts, shape: Shape) -> ShardingRule:
    """`n c !y !x, c, c -> n c !y !x`."""
    build = RuleBuilder()
    dims = [
        build.dim(s, PASS if i < 2 else REPLICATE, "nc"[i] if i < 2 else "")
        for i, s in enumerate(shape)
    ]
    return build.rule([dims, [dims[1]], [dims[1]]], [dims])


@known_shapes(inputs=1, outputs=1)
def group(facts: OpFacts, shape: Shape, out: Shape) -> ShardingRule:
    """`n (g !c) !y !x, (g !c), (g !c) -> n (g !c) !y !x`; scales are per group before opset 21."""
    groups = int(facts.attributes.get("num_groups", 1))
    if shape[1] is None:
        return whole(facts)
    spatial = " ".join(f"!s{i}" for i in range(len(shape) - 2))
    scale = "g" if facts.version < 21 else "(g !c)"
    image = f"n (g !c) {spatial}"
    return spelled(facts, [image, scale, scale], [image], {"g": groups})


RULES: dict[str, RuleMaker] = {
    "DFT": fourier,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "Hardmax": softmax,
    "LpNormalization": lp,
    "LRN": local_response,
    "MeanVarianceNormalization": mean_variance,
    "LayerNormalization": layer,
    "RMSNormalization": layer,
    "BatchNormalization": batch,
    "InstanceNormalization": instance,
    "GroupNormalization": group,
}
