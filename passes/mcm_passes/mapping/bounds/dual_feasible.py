"""Dual feasible functions: how many bins items need at least.

A function u from [0, 1] to [0, 1] is dual feasible if numbers that sum up to at most 1 have images
that do, too (Lueker 1983; Fekete and Schepers 2001, *New classes of fast lower bounds for bin
packing problems*). So the sum of the images of all items is at most the number of bins.

The functions here are those of Fekete and Schepers (2001, theorem 5): for k = 1, 2, ... the
function `u(k)` leaves x alone if `(k + 1) x` is whole, and else rounds it down to
`floor((k + 1) x) / k`. It finds what is lost where few items, all of much the same size, share a
bin. Images grow with x, so what fits a bin fits a larger one.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Longs

MOST_PARTS = 100
"""Largest k of the functions that are tried."""

MARGIN = 1e-9
"""Relative room for rounding where a size is taken as a multiple of another."""


@inner_njit
def image_sum(sizes: Floats, counts: Longs, room: float, k: int) -> float:
    """The sum of `u(k)(size / room)` over items, `counts[i]` of each size, rounded down safely."""
    total = 0.0
    for i in range(sizes.size):
        x = sizes[i] / room
        scaled = (k + 1) * x
        whole = np.floor(scaled)
        # Near a whole number either branch may be meant; the smaller image is safe.
        if scaled - whole <= MARGIN * (k + 1) or whole + 1 - scaled <= MARGIN * (k + 1):
            image = min(x, whole / k)
        else:
            image = whole / k
        total += counts[i] * image
    return total


@entry_njit
def too_many(sizes: Floats, counts: Longs, room: float, bins: float) -> int:
    """The first k whose function shows that items need more than so many bins, or 0."""
    for k in range(1, MOST_PARTS + 1):
        if image_sum(sizes, counts, room, k) > bins * (1.0 + MARGIN):
            return k
    return 0


@entry_njit
def fewest_bins(sizes: Floats, counts: Longs, room: float) -> int:
    """How many bins items need at least, by the best of the functions; at least one."""
    fewest = 1
    for k in range(1, MOST_PARTS + 1):
        total = image_sum(sizes, counts, room, k)
        fewest = max(fewest, int(np.ceil(total * (1.0 - MARGIN) - MARGIN)))
    return fewest
