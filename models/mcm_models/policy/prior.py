"""Priors: a head start towards chips that a heuristic would choose (ours).

They are heuristics inside the policy, so every experiment reports with and without them, and the
prior alone as a baseline.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Singles = npt.NDArray[np.float32]


def balanced_prior(
    share_before: npt.NDArray[np.floating[Any]], num_chips: int, width: float
) -> Singles:
    """`[n, C]`, added to the policy's scores: `-((c + 1/2 - C w) / width)^2 / 2`.

    Args:
        share_before: `[n]`, w, share of all load before the middle of each node.
        num_chips: C.
        width: deviation in chips, above 0.
    """
    return _bell(num_chips * share_before - 0.5, num_chips, width)


def prior_around(chips: npt.NDArray[np.int32], num_chips: int, width: float) -> Singles:
    """`[n, C]`, likewise around the chips of a known partition.

    Args:
        chips: `[n]`, chip of each node in that partition.
        num_chips: C.
        width: deviation in chips, above 0.
    """
    return _bell(chips, num_chips, width)


def _bell(
    wanted: npt.NDArray[np.floating[Any] | np.int32], num_chips: int, width: float
) -> Singles:
    away = (np.arange(num_chips) - wanted[:, None]) / width
    return (-0.5 * away**2).astype(np.float32)
