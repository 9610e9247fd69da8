"""Proposals near a partition: some units moved to random chips, for FIX to repair."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Ints


def with_moved_units(
    rng: np.random.Generator, chips: Ints, num_chips: int, count: int, share: float
) -> Ints:
    """`[count, n]`, copies of `chips[n]` in which each unit is moved with probability `share`."""
    proposals = np.tile(chips, (count, 1))
    moved = rng.random(proposals.shape) < share
    proposals[moved] = rng.integers(0, num_chips, int(moved.sum()))
    return proposals
