"""Pools, and ops that sample an image at places."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import OpFacts, RuleMaker, ShardingRule
from mcm_passes.parallelism.rules.operators import composing
from mcm_passes.parallelism.rules.operators.windows import window_dims, windows


@composing.known_shapes(inputs=1, outputs=1)
def pool(facts: OpFacts, image: composing.Shape, out: composing.Shape) -> ShardingRule:
    """`n c y~ x~ -> n c y~ x~`; whole with indices, which count through the whole tensor."""
    kernel = facts.attributes.get("kernel_shape")
    if kernel is None or len(facts.output_shapes) > 1:
        return composing.whole(facts)
    build = composing.RuleBuilder()
    first = [build.dim(image[0], name="n"), build.dim(image[1], name="c")]
    before, after = window_dims(build, windows(facts, image[2:], tuple(kernel), out[2:]))
    return build.rule([first + before], [first + after])


@composing.known_shapes(inputs=1, outputs=1)
def columns_to_image(
    facts: OpFacts, columns: composing.Shape, out: composing.Shape
) -> ShardingRule:
    """Col2Im `n (c !k) !l, _, _ -> n c !y !x`: blocks overlap."""
    places = " ".join(f"!s{axis}" for axis in range(len(out) - 2))
    return composing.spelled(facts, ["n (c !k) !l", "_", "_"], [f"n c {places}"])


@composing.known_shapes(inputs=1)
def grid_sample(facts: OpFacts, image: composing.Shape) -> ShardingRule:
    """`n c !y !x, n v u !k -> n c v u`: a place may read anywhere of its image."""
    read = " ".join(f"!y{axis}" for axis in range(len(image) - 2))
    places = " ".join(f"v{axis}" for axis in range(len(image) - 2))
    return composing.spelled(facts, [f"n c {read}", f"n {places} !k"], [f"n c {places}"])


def region_align(facts: OpFacts) -> ShardingRule:
    """`!n c !y !x, r !k, r -> r c !v !u`: a region names its image."""
    return composing.spelled(facts, ["!n c !y !x", "r !k", "r"], ["r c !v !u"])


def region_pool(facts: OpFacts) -> ShardingRule:
    """`!n c !y !x, r !k -> r c !v !u`."""
    return composing.spelled(facts, ["!n c !y !x", "r !k"], ["r c !v !u"])


RULES: dict[str, RuleMaker] = {
    "MaxPool": pool,
    "AveragePool": pool,
    "LpPool": pool,
    "Col2Im": columns_to_image,
    "GridSample": grid_sample,
    "RoiAlign": region_align,
    "MaxRoiPool": region_pool,
}
