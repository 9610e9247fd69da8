"""Groups of many ops drawn from a table of probabilities, and the gradient of what was drawn.

At 93,000 ops and 180 groups the table has 17 million numbers, so that it is passed over once: all
samples are drawn by inverse distribution functions in the same pass, and the gradient with respect
to logits is written down in closed form instead of being derived through another softmax.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.types import Ints

Singles = npt.NDArray[np.float32]


@entry_njit
def draw_groups(probabilities: Singles, uniforms: Singles, chosen: Ints) -> None:
    """Draws K groups for each of U units.

    Args:
        probabilities: `[U, M]`, rows sum to 1, but for rounding.
        uniforms: `[U, K]`, from 0 up to 1.
        chosen: `[K, U]`, written.
    """
    units, groups = probabilities.shape
    count = uniforms.shape[1]
    sums = np.empty(groups, np.float32)
    for u in range(units):
        total = np.float32(0.0)
        for m in range(groups):
            total += probabilities[u, m]
            sums[m] = total
        for k in range(count):
            m = np.searchsorted(sums, uniforms[u, k] * total, side="right")
            chosen[k, u] = min(m, groups - 1)


@entry_njit
def grouping_gradient(
    probabilities: Singles, chosen: Ints, advantage: Singles, entropy: float, gradient: Singles
) -> None:
    """Gradient of what is to grow, with respect to the logits of groups.

    That is the mean over samples of advantage times log-probability, summed over units, plus
    `entropy` times the sum of the entropies of units.

    Args:
        probabilities: `[U, M]`, softmax of the logits.
        chosen: `[K, U]`.
        advantage: `[K]`.
        entropy: weight.
        gradient: `[U, M]`, written.
    """
    units, groups = probabilities.shape
    count = len(advantage)
    whole = np.float32(advantage.sum() / count)
    for u in range(units):
        for m in range(groups):
            gradient[u, m] = -whole * probabilities[u, m]
        for k in range(count):
            gradient[u, chosen[k, u]] += advantage[k] / np.float32(count)
        if entropy > 0.0:
            mean = 0.0
            for m in range(groups):
                p = probabilities[u, m]
                if p > 0.0:
                    mean += p * np.log(p)
            for m in range(groups):
                p = probabilities[u, m]
                if p > 0.0:
                    gradient[u, m] -= np.float32(entropy * p * (np.log(p) - mean))
