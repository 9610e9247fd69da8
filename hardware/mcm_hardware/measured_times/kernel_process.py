"""A Gaussian process over kernels: what a calibrated roofline leaves of measured times.

After Rasmussen and Williams 2006, *Gaussian Processes for Machine Learning*. It predicts logarithms
of measured over computed times. The covariance is Matern's (3/2), with a length for each feature
and one for types of ops; kernels of one model have a part in common. These numbers maximise the
evidence, by its slope in closed form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mcm_compiler.text.json_text import Number, Place

Floats = NDArray[np.float64]

FEATURES = 17
SCALES = FEATURES + 4

COMPILED = -1
"""Number of the model whose kernels are predicted; others count from 0."""

MOST_FITTED = 400
"""Kernels that the lengths are fitted to, evenly drawn."""

STEPS = 60

Scale = Annotated[float, Meta(ge=-20.0, le=20.0)]


@dataclass(frozen=True)
class KnownKernels:
    """Measured kernels of one machine, and the covariance that was fitted to them.

    Attributes:
        machine: its short name.
        chip: numbers of the chip whose computed times `residuals` are relative to.
        scales: logarithms of the variance, of that of noise, of the length of types, of the
            variance between models, and of the length of each feature; empty before `fitted`.
        models: number of its model by kernel.
        types: type of the main op by kernel.
        features: `[kernels, FEATURES]`.
        residuals: logarithms of measured over computed times by kernel.

    Raises:
        ValueError: if the numbers of entries contradict each other.
    """

    machine: str
    chip: tuple[Number, ...]
    scales: tuple[Scale, ...]
    models: tuple[Place, ...]
    types: tuple[str, ...]
    features: tuple[tuple[Number, ...], ...]
    residuals: tuple[Scale, ...]

    def __post_init__(self) -> None:
        counts = {len(self.models), len(self.types), len(self.features), len(self.residuals)}
        if len(counts) > 1 or any(len(row) != FEATURES for row in self.features):
            raise ValueError(f"a kernel lacks one of {FEATURES} features, its type or its residual")
        if len(self.scales) not in (0, SCALES):
            raise ValueError(f"it has not {SCALES} scales")

    def encoded(self) -> bytes:
        """The content of a file."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    def taken(self, keep: Sequence[int]) -> KnownKernels:
        """Some of the kernels."""
        return replace(
            self,
            models=tuple(self.models[k] for k in keep),
            types=tuple(self.types[k] for k in keep),
            features=tuple(self.features[k] for k in keep),
            residuals=tuple(self.residuals[k] for k in keep),
        )

    def fitted(self) -> KnownKernels:
        """The same kernels with the covariance under which they are most likely.

        Steps follow signs of the slope, each number at a pace of its own (iRprop-, Igel and Huesken
        2000), and a weak prior keeps what no kernel shows.
        """
        count = len(self.residuals)
        some = self.taken(range(0, count, math.ceil(count / MOST_FITTED)))
        spread = np.array(some.features).std(axis=0)
        variance = max(float(np.var(some.residuals)), 1e-3)
        lengths = np.log(np.maximum(3.0 * spread, 0.5))
        variances = np.log(variance * np.array([1.0, 0.05, 1.0, 0.2]))
        start = np.concatenate([variances, lengths])
        start[2] = 0.0
        scales, pace, before = start, np.full(len(start), 0.1), np.zeros(len(start))
        for _ in range(STEPS):
            slope = slope_of_evidence(scales, some) - (scales - start)
            turned = slope * before
            pace = np.clip(pace * np.where(turned > 0, 1.2, np.where(turned < 0, 0.5, 1)), 1e-4, 1)
            before = np.where(turned < 0, 0.0, slope)
            scales = scales + np.sign(before) * pace
        return replace(self, scales=tuple(round(float(s), 4) for s in scales))


class _Points(NamedTuple):
    features: Floats
    types: NDArray[np.str_]
    models: NDArray[np.int64]

    @classmethod
    def of(cls, known: KnownKernels) -> _Points:
        types = np.array(known.types, np.str_)
        return cls(np.array(known.features), types, np.array(known.models, np.int64))


class KernelProcess:
    """Predictions for kernels of the model that is compiled.

    Args:
        known: measured kernels, its own among them.
    """

    def __init__(self, known: KnownKernels) -> None:
        self.known = known

    @cached_property
    def _solved(self) -> tuple[Floats, _Points, Floats]:
        scales, points = np.array(self.known.scales), _Points.of(self.known)
        matern, between, _ = _covariances(scales, points, points)
        noise = np.exp(scales[1]) * np.eye(len(matern))
        return scales, points, np.linalg.inv(matern + between + noise)

    def predicted(self, kind: str, features: tuple[float, ...]) -> tuple[float, float]:
        """The logarithm of measured over computed time of a kernel, and its standard deviation.

        Args:
            kind: type of its main op.
            features: of the kernel.
        """
        scales, points, inverse = self._solved
        one = _Points(np.array([features]), np.array([kind]), np.array([COMPILED]))
        matern, between, _ = _covariances(scales, one, points)
        near: Floats = (matern + between)[0]
        weights: Floats = near @ inverse
        left = float(np.exp(scales[0]) + np.exp(scales[3]) - weights @ near)
        return float(weights @ np.array(self.known.residuals)), math.sqrt(max(left, 0.0))


def _covariances(scales: Floats, a: _Points, b: _Points) -> tuple[Floats, Floats, Floats]:
    """By features and type, by model, and what slopes in the lengths have in common."""
    x, y = a.features / np.exp(scales[4:]), b.features / np.exp(scales[4:])
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2.0 * x @ y.T
    squares += (a.types[:, None] != b.types) * np.exp(-2.0 * scales[2])
    distance = np.sqrt(3.0 * np.maximum(squares, 0.0))
    decay: Floats = np.exp(scales[0] - distance)
    between: Floats = (a.models[:, None] == b.models) * np.exp(scales[3])
    return (1.0 + distance) * decay, between, 3.0 * decay


def slope_of_evidence(scales: Floats, known: KnownKernels) -> Floats:
    """Slope of the logarithm of the evidence in each of the scales (equation 5.9 of the book)."""
    points, residuals = _Points.of(known), np.array(known.residuals)
    matern, between, common = _covariances(scales, points, points)
    noise = np.exp(scales[1])
    inverse = np.linalg.inv(matern + between + noise * np.eye(len(residuals)))
    solved = inverse @ residuals
    pull = 0.5 * (np.outer(solved, solved) - inverse)
    near, x = common * pull, points.features
    lengths = 2.0 * (near.sum(axis=1) @ x**2 - (x * (near @ x)).sum(axis=0))
    differs = points.types[:, None] != points.types
    slopes = [
        (pull * matern).sum(),
        noise * np.trace(pull),
        (near * differs).sum() * np.exp(-2.0 * scales[2]),
        (pull * between).sum(),
    ]
    return np.concatenate([slopes, lengths * np.exp(-2.0 * scales[4:])])
