"""Sharding rules as arrays, made once per rule however many ops follow it.

A dimension made of several factors is divided along the major one, so that it belongs to that
factor, in as many units as the factor has. The factors below it must stay whole wherever they are
found. Major factors that an op needs whole are stepped over: below them, a part of the dimension is
a *run* of elements for each point of theirs, as in `(!c d) -> d, d, d`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.sharding.rules import Dims, FactorKind, ShardingRule


class Block(IntEnum):
    """Why a dimension cannot be divided; the first reason found is kept."""

    NONE = 0
    WHOLE = 1
    """An op needs it as a whole."""
    HALO = 2
    """A window slides along it."""
    SCATTERED = 3
    """Its parts would not be contiguous in an op's operand or result."""
    MINOR = 4
    """It is merged below another dimension."""
    UNKNOWN = 5
    """Nothing is known of the op."""
    NORMALISED = 6
    """Ops that together normalise along it need it as a whole."""
    ITSELF = 7
    """It meets itself: two loops of an op are of its class."""
    RUNS = 8
    """Ops ask for runs of different lengths."""
    KEPT = 9
    """It cannot be divided in any case, and is kept whole for the sake of what is below it."""


KIND_BLOCKS = {
    FactorKind.PASS: Block.NONE,
    FactorKind.REDUCE: Block.NONE,
    FactorKind.REPLICATE: Block.WHOLE,
    FactorKind.HALO: Block.HALO,
    FactorKind.BLOCKED: Block.SCATTERED,
}

UNKNOWN_UNITS = 0
"""Units of a factor whose size is unknown: neutral in a greatest common divisor."""


@dataclass(frozen=True, eq=False)
class SlotTemplate:
    """A rule with operands and results in one row of *slots*, operands first.

    Attributes:
        rule: what it was made of.
        members: `[M, 5]` int64, the dimensions that can be divided: slot, dim, factor, units, and
            points of the factors above it, which are whole.
        merged: `[P, 3]` int64, those of them that have more factors below: slot, dim, factor.
        stuck: `[B, 3]` int64, the dimensions that cannot: slot, dim or -1 for all, `Block`.
        factor_block: `[F]` int64 `Block` of every factor.
        ranks: `[slots]` int64, dimensions that the rule gives to each slot; -1 for any.
    """

    rule: ShardingRule
    members: Longs
    merged: Longs
    stuck: Longs
    factor_block: Longs
    ranks: Longs


def rule_template(rule: ShardingRule, kept: Collection[int] = ()) -> SlotTemplate:
    """The arrays of `rule`.

    Args:
        rule: of an op.
        kept: factors that are whole for the sake of others; see `kept_factors`.
    """
    members: list[tuple[int, int, int, int, int]] = []
    merged: list[tuple[int, int, int]] = []
    stuck: list[tuple[int, int, int]] = []
    ranks: list[int] = []
    blocks = [int(KIND_BLOCKS[factor.kind]) for factor in rule.factors]
    for factor in kept:
        blocks[factor] = int(Block.KEPT)
    slots: tuple[Dims | None, ...] = rule.inputs + rule.outputs
    for slot, dims in enumerate(slots):
        if dims is None:
            ranks.append(-1)
            stuck.append((slot, -1, int(Block.WHOLE)))
            continue
        ranks.append(len(dims))
        for dim, factors in enumerate(dims):
            # A factor of size 1 divides nothing and hides nothing.
            proper = [factor for factor in factors if rule.factors[factor].size != 1]
            if not proper:
                stuck.append((slot, dim, int(Block.WHOLE)))
                continue
            above = _whole_above(rule, proper)
            major, *minor = proper[above:]
            runs = math.prod(rule.factors[factor].size or 1 for factor in proper[:above])
            members.append((slot, dim, major, rule.factors[major].size or UNKNOWN_UNITS, runs))
            if minor:
                merged.append((slot, dim, major))
            for factor in minor:
                blocks[factor] = blocks[factor] or int(Block.MINOR)
    return SlotTemplate(
        rule=rule,
        members=np.array(members, dtype=np.int64).reshape(-1, 5),
        merged=np.array(merged, dtype=np.int64).reshape(-1, 3),
        stuck=np.array(stuck, dtype=np.int64).reshape(-1, 3),
        factor_block=np.array(blocks, dtype=np.int64),
        ranks=np.array(ranks, dtype=np.int64),
    )


def _whole_above(rule: ShardingRule, dim: Sequence[int]) -> int:
    """How many major factors of a dimension are whole; 0 if all are, or one is of unknown size."""
    for at, index in enumerate(dim):
        factor = rule.factors[index]
        if factor.kind is not FactorKind.REPLICATE:
            return at
        if factor.size is None:
            break
    return 0
