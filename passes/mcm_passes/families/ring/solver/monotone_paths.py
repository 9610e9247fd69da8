"""Exact sampling along a linear extension, under the relay rule.

Along a fixed topological order, partitions without skipped chips that never step back are
monotone paths: the first node is on chip 0, and each next one on the same chip or the next. Forward
filtering and backward sampling draw from `p(f | f is such a monotone path)` without any search, in
O(n C) (Rabiner 1989, *A Tutorial on Hidden Markov Models*, section III A; monotone paths are
left-to-right models).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Ints
from mcm_passes.families.ring.solver.random_stream import uniform

Words = npt.NDArray[np.uint64]

_NEVER = -np.inf


@entry_njit
def sample_monotone_paths(log_p: Floats, count: int, streams: Words) -> Ints:
    """Independent draws from the distribution over monotone_paths.

    Args:
        log_p: `[n, C]`, logarithm of the weight of each chip for the node at each position; minus
            infinity where the chip is forbidden. Rows need not be normalised.
        count: draws.
        streams: `[count]`, states of random streams.

    Returns:
        `[count, n]`, chips by position; -1 throughout where no monotone path is possible.
    """
    n, chips = log_p.shape
    forward = _forward(log_p)
    drawn = np.empty((count, n), np.int32)
    for b in range(count):
        c = pick(forward[n - 1], chips, streams, b)
        if c < 0:
            drawn[b] = -1
            continue
        for i in range(n - 1, 0, -1):
            drawn[b, i] = c
            stay = forward[i - 1, c]
            step = forward[i - 1, c - 1] if c > 0 else _NEVER
            if stay == _NEVER:
                c -= 1
            elif step != _NEVER and uniform(streams, b) * (1.0 + np.exp(stay - step)) < 1.0:
                # Drawn by the weight of the step among both.
                c -= 1
        drawn[b, 0] = c
    return drawn


@entry_njit
def monotone_path_marginals(log_p: Floats) -> Floats:
    """Marginals of the distribution that `sample_monotone_paths` draws from (forward-backward).

    Args:
        log_p: as for `sample_monotone_paths`.

    Returns:
        `[n, C]`, logarithm of the probability that each position is on each chip; minus infinity
        throughout where no monotone path is possible.
    """
    n, chips = log_p.shape
    joint = _forward(log_p)
    backward = np.zeros(chips)
    for i in range(n - 1, -1, -1):
        if i < n - 1:
            for c in range(chips):
                # In place: the entry of the next chip is still that of the position after.
                stay = log_p[i + 1, c] + backward[c]
                step = _NEVER
                if c + 1 < chips:
                    step = log_p[i + 1, c + 1] + backward[c + 1]
                backward[c] = log_sum(stay, step)
        for c in range(chips):
            joint[i, c] += backward[c]
        total = log_total(joint[i])
        if total == _NEVER:
            continue
        for c in range(chips):
            joint[i, c] -= total
    return joint


@inner_njit
def log_sum(first: float, second: float) -> float:
    """The logarithm of the sum of two numbers given by theirs."""
    high, low = max(first, second), min(first, second)
    return high if low == _NEVER else high + np.log1p(np.exp(low - high))


@inner_njit
def log_total(row: Floats) -> float:
    """The logarithm of the sum of numbers given by theirs."""
    high = _NEVER
    for k in range(row.size):
        high = max(high, row[k])
    if high == _NEVER:
        return _NEVER
    total = 0.0
    for k in range(row.size):
        total += np.exp(row[k] - high)
    return high + np.log(total)


@inner_njit
def _forward(log_p: Floats) -> Floats:
    """`[n, C]`, log-weight of all monotone_paths that end at each position and chip."""
    n, chips = log_p.shape
    forward = np.full((n, chips), _NEVER)
    forward[0, 0] = log_p[0, 0]
    for i in range(1, n):
        for c in range(min(i + 1, chips)):
            high = forward[i - 1, c]
            low = forward[i - 1, c - 1] if c > 0 else _NEVER
            if low > high:
                high, low = low, high
            if high == _NEVER:
                continue
            if low != _NEVER:
                high += np.log1p(np.exp(low - high))
            forward[i, c] = high + log_p[i, c]
    return forward


@inner_njit
def pick(row: Floats, size: int, streams: Words, stream: int) -> int:
    """An index with probability proportional to `exp(row)`; -1 where all are minus infinity."""
    high = _NEVER
    for c in range(size):
        high = max(high, row[c])
    if high == _NEVER:
        return -1
    total = 0.0
    for c in range(size):
        total += np.exp(row[c] - high)
    point = uniform(streams, stream) * total
    last = -1
    for c in range(size):
        weight = np.exp(row[c] - high)
        if weight > 0.0:
            last = c
            point -= weight
            if point < 0.0:
                break
    return last
