"""A period from terms by a polynomial of second degree in their logarithms."""

from __future__ import annotations

import math

from mcm_compiler.arrays.lean_kernels import lean_njit
from mcm_compiler.arrays.types import Floats
from mcm_passes.families.fabric.formulas.terms import BOUND, NUM_TERMS

NUM_FEATURES = NUM_TERMS - 1
"""The logarithm of each term but the bound, over the bound."""

LEAST = 1e-3
"""Terms below this share of the bound are taken for so much."""


@lean_njit
def feature(terms: Floats, k: int) -> float:
    """The k-th feature, dimensionless."""
    return math.log(max(terms[k + 1] / terms[BOUND], LEAST))


@lean_njit
def ridge_period(terms: Floats, centre: Floats, spread: Floats, weights: Floats) -> float:
    """Cycles per sample that a ridge expects; at least the bound.

    Args:
        terms: `[NUM_TERMS]`.
        centre: `[F]`, means of features where it was fitted.
        spread: `[F]`, their deviations.
        weights: `[1 + F + F (F + 1) / 2]`, of 1, of features, and of products of two, in order.
    """
    count = len(centre)
    total = weights[0]
    at = 1 + count
    for i in range(count):
        first = (feature(terms, i) - centre[i]) / spread[i]
        total += weights[1 + i] * first
        for j in range(i, count):
            total += weights[at] * first * (feature(terms, j) - centre[j]) / spread[j]
            at += 1
    return terms[BOUND] * math.exp(min(max(total, 0.0), 10.0))
