"""Times of kernels from busy times of chips: each is a sum of the times of the chip's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.arrays.types import Floats

COMMON, KIND, OWN = 0.3, 0.3, 0.5
"""Standard deviations of what is unknown before: a factor of all kernels, one of those of a kind,
and one of each kernel, as shares of its time. The last is as measured on 49 models of one machine:
0.52, weighted by time (docs/results/kernel-times.md)."""

LEAST_NOISE = 0.01
"""Of a busy time, as a share of it."""

_LEAST = 0.05
"""Share of its prior time that a kernel takes at least."""


def updated_times(
    prior_s: Floats, kinds: Sequence[str], counts: Floats, busy_s: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Gaussian update of the times of kernels by sums of them that were measured.

    Args:
        prior_s: `[kernels]`, times that a cost model gives; their level is taken from the sums.
        kinds: of kernels, such as op types; times of one kind tend to be off alike.
        counts: `[sums, kernels]`, how often a kernel is in a sum.
        busy_s: `[sums]`, what was measured.
        noise: `[sums]`, repeat error as a share.

    Returns:
        `[kernels]` times and `[kernels, kernels]` their covariance.
    """
    levels = np.log(busy_s / (counts @ prior_s))
    level = float(np.exp(levels.mean())) if levels.size else 1.0
    mean = level * prior_s
    alike = np.equal.outer(np.asarray(kinds), np.asarray(kinds))
    shares = COMMON**2 + KIND**2 * alike + OWN**2 * np.eye(len(mean))
    covariance = shares * np.outer(mean, mean)
    error = np.diag((np.maximum(noise, LEAST_NOISE) * busy_s) ** 2)
    gain = np.linalg.solve(counts @ covariance @ counts.T + error, counts @ covariance).T
    updated = mean + gain @ (busy_s - counts @ mean)
    return np.maximum(updated, _LEAST * mean), covariance - gain @ counts @ covariance
