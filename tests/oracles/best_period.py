"""The least period of the fast model over all placements."""

from __future__ import annotations

import itertools

import numpy as np

from mcm_passes.families.ring.analytic.fast_model import period


def best_period(problem, candidates=None):
    """Brute force over all placements of the units that are not clonable."""
    fixed = np.flatnonzero(~problem.clonable)
    best = float("inf")
    chips = range(min(problem.num_chips, len(fixed)))
    for choice in candidates or itertools.product(chips, repeat=len(fixed)):
        chip_of = np.zeros(problem.num_units, dtype=np.int32)
        chip_of[fixed] = choice
        best = min(best, period(problem, chip_of))
    return best
