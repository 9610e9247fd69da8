"""Convolutions: channels, groups, and windows that slide over space."""

from __future__ import annotations

from collections.abc import Mapping

from mcm_compiler.contracts.sharding.rules import Dim, FactorKind, ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    PASS,
    REDUCE,
    REPLICATE,
    OpRule,
    RuleFamily,
    Shape,
    window_dims,
    windows,
)

RULES = RuleFamily()


@RULES.of("Conv", by_channel={2: True})
@RULES.of("ConvInteger", by_channel={2: False, 3: True})
@RULES.of(
    "QLinearConv",
    by_channel={1: False, 2: False, 4: True, 5: True, 6: False, 7: False, 8: True},
    at=3,
    contracted=REPLICATE,
)
def conv(
    op: OpRule, by_channel: Mapping[int, bool], at: int = 1, contracted: FactorKind = REDUCE
) -> ShardingRule:
    """`n c+ y~ x~, m c+ !i !j, m -> n m y~ x~`; with groups, `(g c+)` and `(g m)`.

    Args:
        op: the op.
        by_channel: further operands, and whether they have an element for each output channel.
        at: the operand that holds the weights.
        contracted: of the input channels, which rounding the result makes needed whole.
    """
    image, weight, out = op.inputs[0], op.inputs[at], op.outputs[0]
    if image is None or weight is None or out is None or len(weight) != len(image):
        return op.whole()
    groups = int(op.attributes.get("group", 1))
    filters = weight[0]
    if groups > 1 and (filters is None or filters % groups):
        return op.whole()
    n, g = op.dim(image[0], name="n"), op.dim(groups, name="g")
    c = op.dim(weight[1], contracted, "c")
    per_group = filters if groups == 1 or filters is None else filters // groups
    m = g + op.dim(per_group, name="m")
    before, after = window_dims(op, windows(op.facts, image[2:], weight[2:], out[2:]))
    inputs: list[list[Dim] | None] = [None] * len(op.inputs)
    inputs[0] = [n, g + c, *before]
    inputs[at] = [m, c, *op.all_needed(weight[2:])]
    for operand, has_channels in by_channel.items():
        if operand < len(inputs):
            inputs[operand] = _per_channel(op.inputs[operand], m if has_channels else ())
    return op.rule(inputs, [[n, m, *after]])


def _per_channel(shape: Shape | None, m: Dim) -> list[Dim] | None:
    if shape is None:
        return None
    return [() if size == 1 else m for size in shape]


@RULES.of("ConvTranspose", inputs=2, outputs=1)
def conv_transpose(op: OpRule, image: Shape, weight: Shape, out: Shape) -> ShardingRule:
    """`n c+ !y !x, c+ m !i !j, m -> n m !v !u`; with groups, `(g c+)` and `(g m)`."""
    groups = int(op.attributes.get("group", 1))
    channels = weight[0]
    if groups > 1 and (channels is None or channels % groups):
        return op.whole()
    n, g = op.dim(image[0], name="n"), op.dim(groups, name="g")
    per_group = channels if groups == 1 or channels is None else channels // groups
    c = g + op.dim(per_group, REDUCE, "c")
    m = op.dim(weight[1], name="m")
    before = op.all_needed(image[2:])
    after = op.all_needed(out[2:])
    kernel = op.all_needed(weight[2:])
    inputs: list[list[Dim] | None] = [[n, c, *before], [c, m, *kernel]]
    if len(op.inputs) > 2:
        inputs.append(_per_channel(op.inputs[2], g + m))
    return op.rule(inputs, [[n, g + m, *after]])


@RULES.of("DeformConv", inputs=2, outputs=1)
def deform_conv(op: OpRule, image: Shape, weight: Shape, out: Shape) -> ShardingRule:
    """`n !c !y !x, m !d !i !j, n !o v u, m, n !k v u -> n m v u`: offsets may reach anywhere."""
    offset = op.inputs[2]
    if offset is None:
        return op.whole()
    n = op.dim(image[0], name="n")
    m_kind = PASS if int(op.attributes.get("group", 1)) == 1 else REPLICATE
    m = op.dim(weight[0], m_kind, "m")
    places = op.all_needed(out[2:])
    rest = op.all_needed(image[1:])
    inputs: list[list[Dim] | None] = [
        [n, *rest],
        [m, *op.all_needed(weight[1:])],
        [n, op.needed(offset[1]), *places],
    ]
    if len(op.inputs) > 3:
        inputs.append(_per_channel(op.inputs[3], m))
    if len(op.inputs) > 4:
        mask = op.inputs[4]
        inputs.append(None if mask is None else [n, op.needed(mask[1]), *places])
    return op.rule(inputs, [[n, m, *places]])
