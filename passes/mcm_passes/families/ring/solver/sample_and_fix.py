"""SAMPLE and FIX of MCM (algorithms 1 and 2): rollouts that decide one node after another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inner_njit, lean_inner_njit
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Bools, Ints, Longs
from mcm_passes.families.ring.solver.adjacent_domains import AdjacentFacts, spread
from mcm_passes.families.ring.solver.random_stream import uniform
from mcm_passes.families.ring.solver.relay_domains import (
    Matching,
    RelayFacts,
    empty_matching,
    find_obstacle,
    hold,
)
from mcm_passes.mapping.problem.rule_graph import Words

Singles = npt.NDArray[np.float32]

_UNDECIDED = -1


class Rollouts(NamedTuple):
    """B rollouts to draw.

    Attributes:
        orders: `[G, n]`, orders in which nodes are decided.
        order_of: `[B]`, that of each rollout.
        proposals: `[B, n]`, for FIX the chips to keep where possible, or `[0, n]` for SAMPLE.
        weights: `[B, n, C]`, `[1, n, C]` for the same in all rollouts, or `[0, n, C]` for
            uniform; non-negative, with any sum. Where all weights in a domain are 0 it is drawn
            from uniformly.
        streams: `[B]`, random streams of the rollouts.
        domains: `[B, n, 2]`, filled with the lowest and the highest chip that each node could go to
            when it was decided, equal where it was forced; or `[0, n, 2]`.
    """

    orders: Ints
    order_of: Longs
    proposals: Ints
    weights: Singles
    streams: Words
    domains: Ints


class Bounds(NamedTuple):
    """Chips that the nodes of a rollout may be on, closed under the rule.

    Attributes:
        low: `[n]`, the lowest.
        minus_high: `[n]`, negatives of the highest.
        queue: `[n]`, space.
    """

    low: Ints
    minus_high: Ints
    queue: Ints


@entry_njit
def draw_rollouts(
    level: tuple[Rows, Rows],
    relay: RelayFacts,
    adjacent: AdjacentFacts,
    first: tuple[Ints, Ints],
    rollouts: Rollouts,
    chips: Ints,
    some: tuple[int, int],
) -> None:
    """One partition for each of some rollouts that is valid under the rule.

    Args:
        level: successors in the rule graph, and predecessors.
        relay: what all rollouts under the relay rule share; without chips under the other one.
        adjacent: what all share whose dependencies span at most one chip, without sources under
            the relay rule.
        first: `[n]` each, lowest and highest chips, closed; they admit a partition.
        rollouts: what is to be drawn.
        chips: `[B, n]`, written.
        some: the first rollout that is drawn, and one behind the last.

    Raises:
        AssertionError: if no chip is possible for a node, which closed domains rule out.
    """
    bounds, m = _empty_bounds(first[0].size), empty_matching(relay)
    for b in range(some[0], some[1]):
        _begin(bounds, first, rollouts, b)
        m.matched[:] = relay.matched
        m.held[:] = False
        top, safe = int(first[0].max()), adjacent.sources.size == 0
        for phase in range(0 if rollouts.proposals.shape[0] else 1, 2):
            fixes = phase == 0
            for u in rollouts.orders[rollouts.order_of[b]]:
                low, high = int(bounds.low[u]), -int(bounds.minus_high[u])
                if low == high:
                    if not fixes:
                        hold(m, low)
                    continue
                if not safe:
                    high, safe = _below_sources(adjacent, bounds, u)
                if fixes:
                    chip = int(rollouts.proposals[b, u])
                    possible = low <= chip <= high and (
                        find_obstacle(relay, bounds.low, bounds.minus_high, m, u, chip, top) < 0
                    )
                    if not possible:
                        continue
                else:
                    domain = low, high
                    chip, low, high = _draw_possible(relay, rollouts, bounds, m, top, b, u, domain)
                hold(m, chip)
                top = max(top, chip)
                beside = adjacent.before, adjacent.behind
                _decide(rollouts, bounds, b, u, chip, (low, high), level, beside)
        _finish(rollouts, bounds, b, chips)


@inner_njit
def _empty_bounds(n: int) -> Bounds:
    return Bounds(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32))


@lean_inner_njit
def _begin(bounds: Bounds, first: tuple[Ints, Ints], rollouts: Rollouts, b: int) -> None:
    """Sets the bounds before anything is decided."""
    for v in range(bounds.low.size):
        bounds.low[v], bounds.minus_high[v] = first[0][v], -first[1][v]
    if rollouts.domains.shape[0]:
        rollouts.domains[b, :, 0] = _UNDECIDED


@lean_inner_njit
def _decide(
    rollouts: Rollouts,
    bounds: Bounds,
    b: int,
    u: int,
    chip: int,
    domain: tuple[int, int],
    level: tuple[Rows, Rows],
    beside: tuple[Rows, Rows],
) -> None:
    """Puts a node on a chip of what was left of its domain.

    Args:
        rollouts: what is to be drawn.
        bounds: those of the rollout.
        b: the rollout.
        u: the node.
        chip: its chip.
        domain: the lowest and the highest chip that are possible.
        level: nodes that are no lower than each, and no higher.
        beside: nodes that are at most one lower than each, and at most one higher.
    """
    if rollouts.domains.shape[0]:
        rollouts.domains[b, u, 0], rollouts.domains[b, u, 1] = domain
    if chip > bounds.low[u]:
        bounds.low[u] = chip
        spread(level[0], beside[0], bounds.low, u, bounds.queue)
    if -chip > bounds.minus_high[u]:
        bounds.minus_high[u] = -chip
        spread(level[1], beside[1], bounds.minus_high, u, bounds.queue)


@lean_inner_njit
def _finish(rollouts: Rollouts, bounds: Bounds, b: int, chips: Ints) -> None:
    """Fills in the chips of a rollout, all decided, and the domains that propagation decided."""
    for v in range(bounds.low.size):
        chips[b, v] = bounds.low[v]
        if rollouts.domains.shape[0] and rollouts.domains[b, v, 0] == _UNDECIDED:
            rollouts.domains[b, v, 0] = rollouts.domains[b, v, 1] = bounds.low[v]


@lean_inner_njit
def _draw_possible(
    facts: RelayFacts,
    rollouts: Rollouts,
    bounds: Bounds,
    m: Matching,
    top: int,
    b: int,
    u: int,
    domain: tuple[int, int],
) -> tuple[int, int, int]:
    """Draws chips for a node until one is possible: that, and the bounds that were left then."""
    low, high = domain
    excluded, most_refused = m.refused[:0], high - low
    while True:
        # Some chip of a closed domain is possible, and none is refused twice.
        assert most_refused >= 0
        assert low <= high
        chip = _draw(low, high, excluded, rollouts, b, u)
        obstacle = find_obstacle(facts, bounds.low, bounds.minus_high, m, u, chip, top)
        if obstacle < 0:
            return chip, low, high
        most_refused -= 1
        if obstacle < chip:
            high = obstacle
        elif obstacle > chip:
            low = obstacle
        else:
            if excluded.size == 0:
                excluded = m.refused
                excluded[:] = False
            excluded[chip] = True


@lean_inner_njit
def _below_sources(facts: AdjacentFacts, bounds: Bounds, u: int) -> tuple[int, bool]:
    """The highest chip of a node with which some source can stay on chip 0.

    The sources that may be there now bound how far above them it can be. And whether one is there
    permanently.
    """
    most, safe = -int(bounds.minus_high[u]), False
    high = int(bounds.low[u])
    for s in range(facts.sources.size):
        source = facts.sources[s]
        if bounds.low[source] == 0:
            high = max(high, int(facts.span[u, s]))
            safe |= bounds.minus_high[source] == 0
            if high >= most:
                return most, safe
    return high, safe


@lean_inner_njit
def _draw(low: int, high: int, excluded: Bools, rollouts: Rollouts, b: int, u: int) -> int:
    """A chip from `low` to `high` that is not excluded, by its weight.

    Args:
        low: the lowest.
        high: the highest.
        excluded: `[C]`, or empty where none is.
        rollouts: weights and streams; where all that is left weighs 0 the draw is uniform.
        b: the rollout.
        u: the node.
    """
    if low == high:
        return low
    weights, which = rollouts.weights, min(b, rollouts.weights.shape[0] - 1)
    point = uniform(rollouts.streams, b)
    if which < 0 and excluded.size == 0:
        return low + int(point * (high - low + 1))
    total, plain = 0.0, which < 0
    for attempt in range(2):
        plain = which < 0 or attempt == 1
        for c in range(low, high + 1):
            if excluded.size == 0 or not excluded[c]:
                total += 1.0 if plain else weights[which, u, c]
        if total > 0.0:
            break
    point *= total
    last = low
    for c in range(low, high + 1):
        if excluded.size == 0 or not excluded[c]:
            weight = 1.0 if plain else weights[which, u, c]
            if weight > 0.0:
                last = c
                point -= weight
                if point < 0.0:
                    return c
    return last
