"""How far what crosses a cut of an order must get."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Longs


def far_of_cuts(made: Longs, read: Longs, n: int) -> Longs:
    """`[n + 1]`, for the cut before each position one past the last reader of what crosses it.

    It never falls. Where every dependency spans at most one chip, the next cut is there or beyond.

    Args:
        made: position of the maker of each dependency.
        read: position of its reader.
        n: positions.
    """
    far = np.arange(n + 1, dtype=np.int64)
    np.maximum.at(far, made + 1, read + 1)
    return np.maximum.accumulate(far)
