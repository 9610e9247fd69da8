"""A bound from the sizes of units alone: chips are bins, and units are not divided.

If all units fit C chips within B seconds, then the images of `work / B` under a dual feasible
function sum up to at most C: a sum above C rules B out.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Longs, LowerBound, PartitionProblem
from mcm_compiler.text.units import count_text

MOST_PARTS = 100
"""Largest k of the functions that are tried."""

MARGIN = 1e-9
"""Relative space for rounding where a size is taken as a multiple of another."""


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
    """The first k whose function shows that items need more than this many bins, or 0."""
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


STEPS = 40
"""Halvings of the bisection."""

LEAST_GAIN = 1e-6
"""Relative gain over the known bound below which there is nothing to report."""

MOST_CLASSES = 20_000
"""Sizes that are distinguished; where there are more, they are rounded down to this many."""


def indivisible_work(problem: PartitionProblem, least_s: float) -> LowerBound:
    """The longest period that some dual feasible function rules out.

    A function that rules a period out rules out all shorter ones, too.

    Linear in the number of units: equal sizes are counted first, and what is too small for any
    of the functions is left out. So are clonable units; every chip counts as the fastest.

    Args:
        problem: the problem.
        least_s: a bound that is known already; shorter periods are not looked at.
    """
    work = problem.compute_s[~problem.clonable] / float(problem.chip_speed.max())
    work = work[work > 0.0]
    if not work.size or least_s <= 0.0:
        return LowerBound(0.0, "no unit")
    sizes, counts = _size_classes(work, least_s)
    if not sizes.size:
        return LowerBound(0.0, "units divide well enough")
    chips = problem.num_chips
    low, high = least_s * (1.0 + LEAST_GAIN), 2.0 * least_s
    parts = _ruled_out(sizes, counts, low, chips)
    if not parts:
        return LowerBound(0.0, "units divide well enough")
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        found = _ruled_out(sizes, counts, middle, chips)
        low, high, parts = (middle, high, found) if found else (low, middle, parts)
    return LowerBound(
        low,
        f"{count_text(work.size, 'unit')} that are not divided, on {chips} chips: "
        f"in {parts + 1}ths of a period they take more than all chips have",
    )


def _size_classes(work: Floats, period_s: float) -> tuple[Floats, Longs]:
    """Distinct sizes, ascending, and how many units have each."""
    sizes, counts = np.unique(work[work * (MOST_PARTS + 1) >= period_s], return_counts=True)
    if sizes.size > MOST_CLASSES:
        grain = 2.0 * period_s / MOST_CLASSES
        # Rounding down only helps.
        sizes, which = np.unique(np.floor(sizes / grain) * grain, return_inverse=True)
        counts = np.bincount(which, weights=counts)
    return sizes, counts.astype(np.int64)


def _ruled_out(sizes: Floats, counts: Longs, period_s: float, chips: int) -> int:
    """The first k whose function rules the period out, or 0."""
    if sizes[-1] > period_s * (1.0 + MARGIN):
        return 1
    return int(too_many(sizes, counts, period_s, chips))
