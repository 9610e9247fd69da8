"""Fitting a ridge: least squares on logarithms, with coefficients kept small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Floats
from mcm_passes.families.fabric.formulas.ridge_kernels import (
    FARTHEST,
    NUM_FEATURES,
    feature,
    slowest,
)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Of a ridge; see `ridge_kernels.ridge_factor`.

    Attributes:
        centre: `[F]`.
        spread: `[F]`.
        weights: `[1 + F]`.
    """

    centre: Floats
    spread: Floats
    weights: Floats


def fitted(terms: Floats, periods: Floats, strength: float = 10.0) -> Coefficients:
    """The ridge that is least wrong about the logarithms of measured periods.

    Hoerl and Kennard 1970, *Ridge regression*.

    Args:
        terms: `[N, NUM_TERMS]`.
        periods: `[N]`, measured.
        strength: weight of squared coefficients beside squared errors; none on the constant.

    Raises:
        ValueError: for fewer samples than coefficients, or numbers that are not finite.
    """
    if len(terms) <= NUM_FEATURES or not (np.isfinite(terms).all() and np.isfinite(periods).all()):
        raise ValueError(f"{len(terms)} samples, some of which may not be finite, are no data")
    features, expected = features_of(terms)
    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.maximum(spread, 1e-6)
    away = np.clip((features - centre) / spread, -FARTHEST, FARTHEST)
    columns = np.concatenate([np.ones((len(away), 1)), away], axis=1)
    penalty = strength * np.diag([0.0] + [1.0] * NUM_FEATURES)
    target = np.log(periods / expected)
    weights = np.linalg.solve(columns.T @ columns + penalty, columns.T @ target)
    return Coefficients(centre, spread, weights.astype(np.float64))


def features_of(terms: Floats) -> tuple[Floats, Floats]:
    """Of each sample, features `[N, F]` and the slowest term `[N]`."""
    return _features(np.array(terms, np.float64))


@entry_njit
def _features(terms: Floats) -> tuple[Floats, Floats]:
    features = np.empty((len(terms), NUM_FEATURES))
    expected = np.empty(len(terms))
    for row in range(len(terms)):
        expected[row] = slowest(terms[row])
        for k in range(NUM_FEATURES):
            features[row, k] = feature(terms[row], k, expected[row])
    return features, expected
