"""The least period of the fast model over all placements."""

from __future__ import annotations

import itertools

import numpy as np

from mcm_passes.mapping.machine.periods import AnalyticPeriods

AT_ONCE = 4096
"""Placements that are evaluated at once."""


def best_period(problem, candidates=None, num_chips=None):
    """Brute force over all placements of the units that are not clonable.

    Args:
        problem: a small one.
        candidates: chips of those units; all combinations by default.
        num_chips: that are tried; as many as there are units to place by default.
    """
    fixed = np.flatnonzero(~problem.clonable)
    chips = range(num_chips or min(problem.num_chips, len(fixed)))
    left = iter(candidates or itertools.product(chips, repeat=len(fixed)))
    periods_of, best = AnalyticPeriods(problem, few=0).periods, float("inf")
    while batch := list(itertools.islice(left, AT_ONCE)):
        rows = np.zeros((len(batch), problem.num_units), np.int32)
        rows[:, fixed] = np.array(batch, np.int32).reshape(len(batch), fixed.size)
        best = min(best, float(periods_of(rows).min()))
    return best
