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

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.families.ring.solver.monotone_paths import log_sum, log_total, pick
from mcm_passes.families.ring.solver.random_stream import uniform
from mcm_passes.mapping.problem.cut_reach import far_of_cuts
from mcm_passes.mapping.problem.rule_graph import RuleGraph

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
    return far_of_cuts(position[graph.sources], position[graph.next_nodes], order.size)


@entry_njit
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
    latest = _latest(reach)
    ends, begins = _forward(_sums(log_p), latest)
    return _drawn(ends, begins, latest, count, streams)


@entry_njit
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
    sums = _sums(log_p)
    return _marginals(sums, _forward(sums, _latest(reach))[0], reach)


@inner_njit
def _sums(log_p: Floats) -> Floats:
    """`[C, n + 1]`, sums of the first nodes on each chip."""
    sums = np.zeros((log_p.shape[1], log_p.shape[0] + 1))
    for i in range(log_p.shape[0]):
        sums[:, i + 1] = sums[:, i] + log_p[i]
    return sums


@inner_njit
def _latest(reach: Longs) -> Longs:
    """`[n + 1]`, the last cut that may come right before each cut; 0 where none but the first."""
    cuts = np.arange(reach.size)
    return np.maximum(np.minimum(np.searchsorted(reach, cuts, side="right"), cuts) - 1, 0)


@inner_njit
def _forward(sums: Floats, latest: Longs) -> tuple[Floats, Floats]:
    """Log-weights of all ways to end run k at each cut, and of all ways to begin it.

    Both are `[C, n + 1]`; the latter is summed over cuts 1 to i.
    """
    ends, begins = np.full(sums.shape, _NEVER), np.full(sums.shape, _NEVER)
    ends[0, 1:] = sums[0, 1:]
    for k in range(1, sums.shape[0]):
        running = _NEVER
        for i in range(1, sums.shape[1] - 1):
            running = log_sum(running, ends[k - 1, i] - sums[k, i])
            begins[k, i] = running
        for j in range(1, sums.shape[1]):
            ends[k, j] = begins[k, latest[j]] + sums[k, j]
    return ends, begins


@inner_njit
def _drawn(ends: Floats, begins: Floats, latest: Longs, count: int, streams: Words) -> Ints:
    """`[count, n]`, draws from the last cut to the first, by search among the sums over cuts."""
    n = latest.size - 1
    drawn = np.empty((count, n), np.int32)
    last = ends[:, n].copy()
    for b in range(count):
        j = n
        for chip in range(pick(last, last.size, streams, b), 0, -1):
            share = np.log(max(1.0 - uniform(streams, b), 1e-300))
            among = begins[chip, 1 : latest[j]]
            start = 1 + np.searchsorted(among, begins[chip, latest[j]] + share)
            drawn[b, start:j] = chip
            j = start
        drawn[b, :j] = 0
    return drawn


@inner_njit
def _marginals(sums: Floats, ends: Floats, reach: Longs) -> Floats:
    """`[n, C]`, logarithms of the marginals, by what precedes and what follows each run."""
    chips, n = sums.shape[0], sums.shape[1] - 1
    # Log-weight of all ways to go on where run k ends at each cut.
    rest = np.full((chips, n + 1), _NEVER)
    rest[:, n] = 0.0
    suffix = np.full(n + 2, _NEVER)
    for k in range(chips - 2, -1, -1):
        for j in range(n, 0, -1):
            suffix[j] = log_sum(suffix[j + 1], rest[k + 1, j] + sums[k + 1, j])
        for j in range(1, n):
            rest[k, j] = suffix[max(reach[j], j + 1)] - sums[k + 1, j]
    total = log_total(ends[:, n])
    marginals = np.full((n, chips), _NEVER)
    for k in range(chips):
        on = 1.0 if k == 0 else 0.0
        for i in range(n):
            if i > 0:
                on += np.exp(ends[k - 1, i] + rest[k - 1, i] - total) if k > 0 else 0.0
                on -= np.exp(ends[k, i] + rest[k, i] - total)
            if on > _ROUNDING:
                marginals[i, k] = np.log(on)
    return marginals
