"""Bisection on periods: what rules a period out rules out all shorter ones, too."""

from __future__ import annotations

from collections.abc import Callable

STEPS = 60
"""Halvings; more than the bits of a float."""


def longest_too_short(
    too_short: Callable[[float], bool], low: float, high: float, steps: int = STEPS
) -> float:
    """The largest period found between `low` and `high` that is too short; 0 if `low` is not."""
    if low <= 0.0 or not too_short(low):
        return 0.0
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if too_short(middle):
            low = middle
        else:
            high = middle
    return low
