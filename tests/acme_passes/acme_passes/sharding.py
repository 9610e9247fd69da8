"""Sharding rules for operators of another domain: as a text, and as a function that makes one."""

from __future__ import annotations

from mcm_compiler.contracts.sharding.rules import OpFacts, ShardingRule
from mcm_compiler.contracts.sharding.templates import rule_for_shapes

BLEND = "n c y x, n c y x, c -> n c y x"
"""Two images of the same shape and a weight per channel; a pixel depends on its own only."""


def fade(facts: OpFacts) -> ShardingRule:
    """An image and how much it is dimmed; towards one side, for which a row has to be whole."""
    width = "!x" if facts.attributes.get("sideways", 0) else "x"
    text = f"n c y {width}, _ -> n c y {width}"
    return rule_for_shapes(text, facts.input_shapes, facts.output_shapes)
