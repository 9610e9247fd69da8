"""Exact sampling along a linear extension where every dependency spans at most one chip.

Such partitions keep the triangle rule (MCM, Eq. 4) by construction: beside a dependency between
neighbours there is no room for a longer path. Cut the order into consecutive runs, one per chip.
What crosses cut i must be read before the next cut j, so that `j >= reach(i)`, one past the last
reader of what crosses i. `reach` never falls, so the cuts that may precede j are a prefix, and
prefix sums of weights do all the work: O(n C), without search (our derivation).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Floats, Ints, Longs
from mcm_passes.families.ring.solver.random_stream import uniform
from mcm_passes.partitioning.rule_graph import RuleGraph

Words = npt.NDArray[np.uint64]

_NEVER = -np.inf

_ROUNDING = 1e-14


def reach_of_cuts(graph: RuleGraph, order: Ints) -> Longs:
    """`[n + 1]`, for the cut before each position one past the last reader of what crosses it.

    Args:
        graph: the rule graph.
        order: `[n]`, a topological order of its nodes.
    """
    position = np.empty(order.size, np.int64)
    position[order] = np.arange(order.size)
    last = np.arange(1, order.size + 1)
    sources = np.repeat(np.arange(order.size), np.diff(graph.next_ptr))
    np.maximum.at(last, position[sources], position[graph.next_nodes] + 1)
    reach = np.arange(order.size + 1)
    reach[1:] = np.maximum(reach[1:], np.maximum.accumulate(last))
    return reach


@njit(cache=True, nogil=True)
def sample_cuts(log_p: Floats, reach: Longs, count: int, streams: Words) -> Ints:
    """Independent draws from the distribution over partitions into runs that `reach` admits.

    Args:
        log_p: `[n, C]`, logarithm of the weight of each chip for the node at each position, finite.
        reach: `[n + 1]`, from `reach_of_cuts`.
        count: draws.
        streams: `[count]`, states of random streams.

    Returns:
        `[count, n]`, chips by position.
    """
    n, chips = log_p.shape
    latest, ends, prefix = _forward(log_p, reach)
    drawn = np.empty((count, n), np.int32)
    high = _NEVER
    for k in range(chips):
        high = max(high, ends[k, n])
    for b in range(count):
        total = 0.0
        for k in range(chips):
            total += np.exp(ends[k, n] - high)
        point = uniform(streams, b) * total
        chip = 0
        for k in range(chips):
            if ends[k, n] != _NEVER:
                chip = k
                point -= np.exp(ends[k, n] - high)
                if point < 0.0:
                    break
        j = n
        while chip > 0:
            # The cut before this run, by the share of its prefix weight.
            goal = prefix[chip, latest[j]] + np.log(max(1.0 - uniform(streams, b), 1e-300))
            low, top = 1, latest[j]
            while low < top:
                middle = (low + top) // 2
                if prefix[chip, middle] >= goal:
                    top = middle
                else:
                    low = middle + 1
            drawn[b, low:j] = chip
            j = low
            chip -= 1
        drawn[b, :j] = 0
    return drawn


@njit(cache=True, nogil=True)
def cut_marginals(log_p: Floats, reach: Longs) -> Floats:
    """Marginals of the distribution that `sample_cuts` draws from (forward-backward).

    A position is on chip k if run k begins at or before it and ends after it, so that differences
    of running sums over cuts are all it takes: O(n C) here, too.

    Args:
        log_p: as for `sample_cuts`.
        reach: likewise.

    Returns:
        `[n, C]`, logarithm of the probability that each position is on each chip; minus infinity
        where that is less than what rounding leaves of sums.
    """
    n, chips = log_p.shape
    sums = _sums(log_p)
    ends = _forward(log_p, reach)[1]
    # Log-weight of all ways to go on where run k ends at each cut.
    rest = np.full((chips, n + 1), _NEVER)
    rest[:, n] = 0.0
    suffix = np.empty(n + 2)
    for k in range(chips - 2, -1, -1):
        suffix[n + 1] = _NEVER
        for j in range(n, 0, -1):
            value = rest[k + 1, j] + sums[k + 1, j]
            high, low = max(suffix[j + 1], value), min(suffix[j + 1], value)
            suffix[j] = high if low == _NEVER else high + np.log1p(np.exp(low - high))
        for j in range(1, n):
            rest[k, j] = suffix[max(reach[j], j + 1)] - sums[k + 1, j]
    high = _NEVER
    for k in range(chips):
        high = max(high, ends[k, n])
    total = 0.0
    for k in range(chips):
        total += np.exp(ends[k, n] - high)
    total = high + np.log(total)
    marginals = np.full((n, chips), _NEVER)
    for k in range(chips):
        on = 1.0 if k == 0 else 0.0
        for i in range(n):
            if i > 0:
                if k > 0:
                    on += np.exp(ends[k - 1, i] + rest[k - 1, i] - total)
                on -= np.exp(ends[k, i] + rest[k, i] - total)
            if on > _ROUNDING:
                marginals[i, k] = np.log(on)
    return marginals


@njit(cache=True, nogil=True)
def _sums(log_p: Floats) -> Floats:
    """`[C, n + 1]`, sums of the first nodes on each chip."""
    n, chips = log_p.shape
    sums = np.zeros((chips, n + 1))
    for i in range(n):
        for k in range(chips):
            sums[k, i + 1] = sums[k, i] + log_p[i, k]
    return sums


@njit(cache=True, nogil=True)
def _latest(reach: Longs) -> Longs:
    """`[n + 1]`, the last cut that may come right before each cut."""
    n = reach.size - 1
    latest = np.zeros(n + 1, np.int64)
    i = 0
    for j in range(1, n + 1):
        while i + 1 < j and reach[i + 1] <= j:
            i += 1
        latest[j] = i
    return latest


@njit(cache=True, nogil=True)
def _forward(log_p: Floats, reach: Longs) -> tuple[Longs, Floats, Floats]:
    """Latest cuts, and log-weights of all ways to end run k at each cut.

    The last is `[C, n + 1]`: for each chip the log of the summed weights of `ends[k - 1, i]` less
    the sum up to i on chip k, over cuts 1 to i.
    """
    n, chips = log_p.shape
    sums, latest = _sums(log_p), _latest(reach)
    ends = np.full((chips, n + 1), _NEVER)
    prefix = np.full((chips, n + 1), _NEVER)
    ends[0, 1:] = sums[0, 1:]
    for k in range(1, chips):
        running = _NEVER
        for i in range(1, n):
            value = ends[k - 1, i] - sums[k, i]
            if value != _NEVER:
                high, low = max(running, value), min(running, value)
                running = high if low == _NEVER else high + np.log1p(np.exp(low - high))
            prefix[k, i] = running
        for j in range(1, n + 1):
            if latest[j] > 0 and prefix[k, latest[j]] != _NEVER:
                ends[k, j] = prefix[k, latest[j]] + sums[k, j]
    return latest, ends, prefix
