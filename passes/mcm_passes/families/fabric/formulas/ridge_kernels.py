"""What a ridge makes of terms: by which factor the slowest of them is wrong."""

from __future__ import annotations

import math

from mcm_compiler.arrays.kernels import lean_inner_njit
from mcm_compiler.arrays.types import Floats
from mcm_passes.families.fabric.formulas.terms import (
    BOUND,
    BUFFER,
    BURST,
    CHANNEL,
    LINK,
    NUM_TERMS,
    QUEUED,
)

NUM_FEATURES = NUM_TERMS
"""The logarithm of each term over the slowest one, dimensionless."""

LEAST = 0.02
"""Terms below this share of the slowest are taken for so much."""

FARTHEST = 3.0
"""Deviations from the mean at which a feature is cut off: beyond, a line is no knowledge."""


@lean_inner_njit
def slowest(terms: Floats) -> float:
    """The period by round trips: the slowest of all terms, each a bound by itself."""
    loads = max(terms[BOUND], terms[LINK], terms[CHANNEL])
    return max(loads, terms[QUEUED], terms[BURST], terms[BUFFER])


@lean_inner_njit
def feature(terms: Floats, k: int, most: float) -> float:
    """The k-th feature, given the slowest term."""
    return math.log(max(terms[k] / most, LEAST))


@lean_inner_njit
def ridge_factor(terms: Floats, centre: Floats, spread: Floats, weights: Floats) -> float:
    """By which the slowest term has to be multiplied.

    Args:
        terms: `[NUM_TERMS]`.
        centre: `[F]`, means of features where it was fitted.
        spread: `[F]`, their deviations.
        weights: `[1 + F]`, of 1 and of features.
    """
    most = slowest(terms)
    total = weights[0]
    for k in range(len(centre)):
        away = (feature(terms, k, most) - centre[k]) / spread[k]
        total += weights[1 + k] * min(max(away, -FARTHEST), FARTHEST)
    return math.exp(min(max(total, -1.0), 1.0))
