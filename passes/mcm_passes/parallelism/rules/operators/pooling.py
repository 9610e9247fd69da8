"""Pools, and ops that sample an image at places."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import ShardingRule
from mcm_passes.parallelism.rules.operators.composing import (
    OpRule,
    RuleFamily,
    Shape,
    window_dims,
    windows,
)

RULES = RuleFamily()


@RULES.of("MaxPool", "AveragePool", "LpPool", inputs=1, outputs=1)
def pool(op: OpRule, image: Shape, out: Shape) -> ShardingRule:
    """`n c y~ x~ -> n c y~ x~`; whole with indices, which count through the whole tensor."""
    kernel = op.attributes.get("kernel_shape")
    if kernel is None or len(op.outputs) > 1:
        return op.whole()
    first = [op.dim(image[0], name="n"), op.dim(image[1], name="c")]
    before, after = window_dims(op, windows(op.facts, image[2:], tuple(kernel), out[2:]))
    return op.rule([first + before], [first + after])


@RULES.of("Col2Im", inputs=1, outputs=1)
def columns_to_image(op: OpRule, columns: Shape, out: Shape) -> ShardingRule:
    """Col2Im `n (c !k) !l, _, _ -> n c !y !x`: blocks overlap."""
    places = " ".join(f"!s{axis}" for axis in range(len(out) - 2))
    return op.spelled(["n (c !k) !l", "_", "_"], [f"n c {places}"])


@RULES.of("GridSample", inputs=1)
def grid_sample(op: OpRule, image: Shape) -> ShardingRule:
    """`n c !y !x, n v u !k -> n c v u`: a place may read anywhere of its image."""
    read = " ".join(f"!y{axis}" for axis in range(len(image) - 2))
    places = " ".join(f"v{axis}" for axis in range(len(image) - 2))
    return op.spelled([f"n c {read}", f"n {places} !k"], [f"n c {places}"])


@RULES.of("MaxRoiPool", "RoiAlign")
def regions(op: OpRule) -> ShardingRule:
    """`!n c !y !x, r !k, r -> r c !v !u`: a region names its image."""
    return op.spelled(["!n c !y !x", "r !k", "r"], ["r c !v !u"])
