"""Convolutions: channels, groups, and windows that slide over space."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import Dim, FactorKind, OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REDUCE,
    REPLICATE,
    RuleBuilder,
    Shape,
    known_shapes,
    whole,
)
from mcm_passes.parallelism.rules.operators.windows import window_dims, windows


def conv(facts: OpFacts) -> ShardingRule:
    """`n c+ y~ x~, m c+ !i !j, m -> n m y~ x~`; with groups, `(g c+)` and `(g m)`."""
    return _conv(facts, 1, REDUCE, {2: "bias"})


def conv_integer(facts: OpFacts) -> ShardingRule:
    """As `conv`, with a zero point for all or per output channel."""
    return _conv(facts, 1, REDUCE, {2: "", 3: "channel"})


def qlinear_conv(facts: OpFacts) -> ShardingRule:
    """As `conv`, but rounding the result makes the input channels needed whole."""
    roles = {1: "", 2: "", 4: "channel", 5: "channel", 6: "", 7: "", 8: "bias"}
    return _conv(facts, 3, REPLICATE, roles)


def _conv(facts: OpFacts, at: int, contracted: FactorKind, roles: dict[int, str]) -> ShardingRule:
    image, weight, out = facts.input_shapes[0], facts.input_shapes[at], facts.output_shapes[0]
    if image is None or weight is None or out is None or len(weight) != len(image):
        return whole(facts)
    groups = int(facts.attributes.get("group", 1))
    filters = weight[0]
    if groups > 1 and (filters is None or filters % groups):
        return whole(facts)
    build = RuleBuilder()
    n = build.dim(image[0], name="n")
    g = build.dim(groups, name="g")
    c = build.dim(weight[1], contracted, "c")
    per_group = filters if groups == 1 or filters is None else filters // groups
    m = g + build.dim(per_group, name="m")
    places = windows(facts, image[2:], weight[2:], out[2:])
    before, after = window_dims(build, places)
    kernel = [build.dim(size, REPLICATE) for size in weight[2:]]
    inputs: list[list[Dim] | None] = [None] * len(facts.input_shapes)
    inputs[0] = [n, g + c, *before]
    inputs[at] = [m, c, *kernel]
    for operand, role in roles.items():
        if operand < len(inputs):
            inputs[operand] = _per_channel(facts.input_shapes[operand], m if role else ())
    return build.rule(inputs, [[n, m, *after]])


def _per_channel(shape: Shape | None, m: Dim) -> list[Dim] | None:
    if shape is None:
        return None
    return [() if size == 1 else m for size in shape]


@known_shapes(inputs=2, outputs=1)
def conv_transpose(facts: OpFacts, image: Shape, weight: Shape, out: Shape) -> ShardingRule:
    """`n c+ !y !x, c+ m !i !j, m -> n m !v !u`; with groups, `(g c+)` and `(g m)`."""
    groups = int(facts.attributes.get("group", 1))
    channels = weight[0]
    if groups > 1 and (channels is None or channels % groups):
        return whole(facts)
    build = RuleBuilder()
    n = build.dim(image[0], name="n")
    g = build.dim(groups, name="g")
    per_group = channels if groups == 1 or channels is None else channels // groups
    c = g + build.dim(per_group, REDUCE, "c")
    m = build.dim(weight[1], name="m")
    before = [build.dim(s, REPLICATE) for s in image[2:]]
    after = [build.dim(s, REPLICATE) for s in out[2:]]
    kernel = [build.dim(s, REPLICATE) for s in weight[2:]]
    inputs: list[list[Dim] | None] = [[n, c, *before], [c, m, *kernel]]
    if len(facts.input_shapes) > 2:
        inputs.append(_per_channel(facts.input_shapes[2], g + m))
    return build.rule(inputs, [[n, g + m, *after]])


@known_shapes(inputs=2, outputs=1)
def deform_conv(facts: OpFacts, image: Shape, weight: Shape, out: Shape) -> ShardingRule:
    """`n !c !y !x, m !d !i !j, n !o v u, m, n !k v u -> n m v u`: offsets may reach anywhere."""
    offset = facts.input_shapes[2]
    if offset is None:
        return whole(facts)
    build = RuleBuilder()
    n = build.dim(image[0], name="n")
    m_kind = PASS if int(facts.attributes.get("group", 1)) == 1 else REPLICATE
    m = build.dim(weight[0], m_kind, "m")
    places = [build.dim(s, REPLICATE) for s in out[2:]]
    rest = [build.dim(s, REPLICATE) for s in image[1:]]
    inputs: list[list[Dim] | None] = [
        [n, *rest],
        [m, *[build.dim(s, REPLICATE) for s in weight[1:]]],
        [n, build.dim(offset[1], REPLICATE), *places],
    ]
    if len(facts.input_shapes) > 3:
        inputs.append(_per_channel(facts.input_shapes[3], m))
    if len(facts.input_shapes) > 4:
        mask = facts.input_shapes[4]
        inputs.append(None if mask is None else [n, build.dim(mask[1], REPLICATE), *places])
    return build.rule(inputs, [[n, m, *places]])


RULES: dict[str, RuleMaker] = {
    "Conv": conv,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
    "ConvTranspose": conv_transpose,
    "DeformConv": deform_conv,
}
