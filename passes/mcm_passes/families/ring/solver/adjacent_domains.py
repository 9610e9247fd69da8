"""Domains where every dependency spans at most one chip, which keeps the triangle rule.

For each edge `f(u) <= f(v) <= f(u) + 1`: difference constraints, whose solutions are a lattice.
Bounds propagation is therefore complete (Dechter, Meiri and Pearl 1991, *Temporal constraint
networks*, theorem 3.4). Each value of a domain belongs to a solution, and all lower bounds together
are one. On a connected graph no chip below a used one is empty where chip 0 is used, because
neighbours are at most one chip apart. That is so while the lower bound of some source is 0. Parts
without a connection are tied to each other likewise, so that their chips join up (our restriction).

Each constraint bounds one node from below by another's bound, less 0 along edges, or less 1 to
neighbours; for upper bounds, kept as their negatives, so it is the other way round. `spread` is
all there is to say of that: it closes bounds where one was raised.

Strict partitions that are not of this kind (parallel branches over chips of their own) are for
CP-SAT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.contracts.partition import Floats, Ints, Longs
from mcm_passes.families.ring.solver.monotone_paths import log_sum, log_total, pick
from mcm_passes.families.ring.solver.random_stream import uniform
from mcm_passes.mapping.bounds.articulation import connected_parts
from mcm_passes.mapping.problem.rule_graph import RuleGraph, Words, far_of_cuts

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
    return far_of_cuts(position[graph.after.owners], position[graph.after.entries], order.size)


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


class AdjacentFacts(NamedTuple):
    """Facts that all rollouts share where dependencies span at most one chip.

    Attributes:
        before: neighbours that are at most one chip further: predecessors, and nodes tied to each.
        behind: likewise successors, and nodes tied to each.
        sources: `[S]`, sources that can be on chip 0.
        span: `[n, S]`, chips that each node can be above each of them at most.
    """

    before: Rows
    behind: Rows
    sources: Ints
    span: npt.NDArray[np.int16]


def no_adjacent_facts(num_nodes: int) -> AdjacentFacts:
    """Facts where dependencies may span any number of chips."""
    none = Rows(np.zeros(num_nodes + 1, np.int64), np.empty(0, np.int64))
    return AdjacentFacts(none, none, np.empty(0, np.int32), np.empty((num_nodes, 0), np.int16))


MAX_SPANS = 1 << 26
"""Nodes times sources up to which spans are kept: half a second and 128 MiB."""


def adjacent_facts(graph: RuleGraph) -> tuple[AdjacentFacts, Ints, Ints] | None:
    """Facts that rollouts share, and closed bounds; None where no partition is of this kind.

    Of a graph with more than `MAX_SPANS` pairs of nodes and sources only the first sources are
    taken: one of these is then on chip 0 (our restriction).
    """
    n, num_chips = graph.num_nodes, graph.num_chips
    behind, before = graph.after, graph.before
    near_behind, near_before = _near(graph)
    low = _closed(behind, near_before, graph.low, 0)
    minus_high = _closed(before, near_behind, -graph.high, 1 - num_chips)
    if not (low == 0).any() or (low > -minus_high).any():
        return None
    sources = np.flatnonzero((np.diff(before.ptr) == 0) & (low == 0)).astype(np.int32)
    sources = sources[: max(MAX_SPANS // n, 1)]
    span = np.empty((n, sources.size), np.int16)
    _fill_spans(before, near_behind, sources, num_chips, span)
    facts = AdjacentFacts(near_before, near_behind, sources, span)
    return facts, low, np.minimum(-minus_high, span.max(axis=1))


def _near(graph: RuleGraph) -> tuple[Rows, Rows]:
    """Successors and predecessors where the parts of a graph are tied together, by their roots."""
    n = graph.num_nodes
    source, target = graph.after.owners, graph.after.entries
    roots = np.flatnonzero(connected_parts(source, target, n) == np.arange(n))
    a = np.concatenate([source, roots[:-1], roots[1:]])
    b = np.concatenate([target, roots[1:], roots[:-1]])
    return distinct_rows(a, b, n), distinct_rows(b, a, n)


@entry_njit
def _closed(level: Rows, beside: Rows, bounds: Ints, least: int) -> Ints:
    """`[n]`, `bounds[n]` closed as by `spread`; none is below `least`."""
    closed, queue = np.full(bounds.size, least, np.int32), np.empty(bounds.size, np.int32)
    for u in np.argsort(-bounds):
        if bounds[u] > closed[u]:
            closed[u] = bounds[u]
            spread(level, beside, closed, u, queue)
    return closed


@entry_njit
def _fill_spans(
    before: Rows, near_behind: Rows, sources: Ints, num_chips: int, span: npt.NDArray[np.int16]
) -> None:
    """Fills `span[n, S]`: upper bounds where one source is on chip 0."""
    minus_high, queue = np.empty(span.shape[0], np.int32), np.empty(span.shape[0], np.int32)
    for s in range(sources.size):
        minus_high[:] = 1 - num_chips
        minus_high[sources[s]] = 0
        spread(before, near_behind, minus_high, sources[s], queue)
        for v in range(span.shape[0]):
            span[v, s] = -minus_high[v]


@lean_inner_njit
def spread(level: Rows, beside: Rows, bounds: Ints, u: int, queue: Ints) -> None:
    """Raises bounds to what the one of `u` says, where they are closed but for that.

    Upper bounds are kept as their negatives, so that this lowers them too. Nodes are visited in the
    order of the distance by which they may be below `u`, so that none is raised twice.

    Args:
        level: nodes that are no lower than each.
        beside: nodes that are at most one lower than each.
        bounds: `[n]`.
        u: the node whose bound has just been raised.
        queue: `[n]`, space.
    """
    queue[0] = u
    begin, end, least = 0, 1, bounds[u]
    while begin < end:
        at = begin
        while at < end:
            end = _raise(level, queue[at], bounds, least, queue, end)
            at += 1
        least -= 1
        for k in range(begin, at):
            end = _raise(beside, queue[k], bounds, least, queue, end)
        begin = at


@inlined_njit
def _raise(rows: Rows, node: int, bounds: Ints, least: int, queue: Ints, end: int) -> int:
    """Raises what one node leads to, and queues it; where the queue ends then."""
    for e in range(rows.ptr[node], rows.ptr[node + 1]):
        v = rows.entries[e]
        if bounds[v] < least:
            bounds[v] = least
            queue[end] = v
            end += 1
    return end
