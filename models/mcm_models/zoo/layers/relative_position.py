"""The buckets of T5's relative positions."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def relative_bucket(
    seq: int, buckets: int, max_distance: int, *, bidirectional: bool
) -> npt.NDArray[np.int64]:
    """Number of the bucket of each pair of positions.

    Half of a direction's buckets hold one distance each, the others grow logarithmically up to
    `max_distance` (Raffel et al. 2020, section 2.1; formula of the released code).

    Args:
        seq: positions.
        buckets: how many there are.
        max_distance: distances from here on share the last bucket.
        bidirectional: later keys have buckets of their own; otherwise they share bucket 0.

    Returns:
        `[seq, seq]`: query, key.
    """
    places = np.arange(seq)
    ahead = places[np.newaxis, :] - places[:, np.newaxis]
    if bidirectional:
        buckets //= 2
        first = np.where(ahead > 0, buckets, 0)
        distance = np.abs(ahead)
    else:
        first = np.zeros_like(ahead)
        distance = np.maximum(-ahead, 0)
    exact = buckets // 2
    # Short distances take the other branch; the maximum keeps their logarithm finite.
    growth = np.log(np.maximum(distance, exact) / exact) / math.log(max_distance / exact)
    coarse = np.minimum(exact + (growth * (buckets - exact)).astype(np.int64), buckets - 1)
    return (first + np.where(distance < exact, distance, coarse)).astype(np.int64)
