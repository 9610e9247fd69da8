"""Periods of plays in which no state came back, and how far they may be off."""

from __future__ import annotations

from mcm_compiler.arrays.kernels import inlined_njit, lean_njit
from mcm_compiler.arrays.types import Longs

FEWEST = 64
"""Samples before which no play is given up, however even it seems."""

LOOKED_EVERY = 16
"""Samples between two looks at how far the period may be off."""


@lean_njit
def cut_off_period(ends: Longs, count: int) -> tuple[float, float]:
    """Cycles per sample of the second half of the samples, and by which share they may be wrong.

    Samples end there at `c + period k` and up to s cycles away from that. Suppose that they always
    do, and that the recurring pattern ends with a sample more or less. Then a longer play changes
    the period by at most `2 s`, and a sample, over the samples of that half.

    Args:
        ends: cycle in which each sample ended.
        count: samples that have ended; at least 5.
    """
    first = count // 2
    steps = count - 1 - first
    period = (ends[count - 1] - ends[first]) / steps
    low, high = 0.0, 0.0
    for k in range(steps + 1):
        away = ends[first + k] - ends[first] - period * k
        low, high = min(low, away), max(high, away)
    return period, min(2.0 * (high - low) / (period * steps) + 1.0 / steps, 1.0)


@inlined_njit
def is_known(ends: Longs, count: int, enough: float) -> bool:
    """Return whether the period of the samples so far is known to a share `enough`."""
    if enough <= 0.0 or count < FEWEST or count % LOOKED_EVERY:
        return False
    return cut_off_period(ends, count)[1] <= enough
