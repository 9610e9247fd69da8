"""SAMPLE and FIX of MCM (algorithms 1 and 2) for groups of rollouts that share their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.kernels import entry_njit, inlined_njit, inner_njit, lean_inner_njit
from mcm_compiler.contracts.partition import Ints, Longs
from mcm_passes.families.ring.solver.adjacent_domains import AdjacentFacts, room_for_spread, spread
from mcm_passes.families.ring.solver.lanes import (
    LANES,
    Domains,
    Edges,
    Lanes,
    Singles,
    Words,
    draw,
    fill_lanes,
    raise_rows,
    room_for_lanes,
)
from mcm_passes.families.ring.solver.random_stream import shuffle
from mcm_passes.families.ring.solver.relay_domains import (
    Decision,
    Matching,
    RelayFacts,
    Trial,
    clear,
    find_obstacle,
    hold,
    reset_matching,
    room_for_matching,
)

_UNDECIDED = -1


class Rollouts(NamedTuple):
    """Rollouts to draw: B in G groups.

    Attributes:
        groups: `[G + 1]`, where each group of rollouts begins; at most `LANES` in each.
        orders: `[G, n]`, order in which each group decides nodes; `[1, n]` for the same in all, and
            `[0, n]` for one at random each.
        group_streams: `[G]`, random streams that orders are drawn from.
        proposals: `[B, n]`, for FIX the chips to keep where possible, or `[0, n]` for SAMPLE.
        weights: `[B, n, C]`, `[1, n, C]` for the same in all rollouts, or `[0, n, C]` for
            uniform; non-negative, with any sum. Where all weights in a domain are 0 it is drawn
            from uniformly.
        streams: `[B]`, random streams of the rollouts.
        domains: `[B, n, 2]`, filled with the lowest and the highest chip that each node could go to
            when it was decided, equal where it was forced; or `[0, n, 2]`.
    """

    groups: Longs
    orders: Ints
    group_streams: Words
    proposals: Ints
    weights: Singles
    streams: Words
    domains: Ints


class _Turn(NamedTuple):
    """A node's turn in a group of rollouts.

    Attributes:
        node: the node.
        step: number of the turn in the group.
        begin: the first rollout of the group.
        end: one past its last.
        keeps: whether proposed chips are kept where possible; otherwise one is drawn.
    """

    node: int
    step: int
    begin: int
    end: int
    keeps: bool


@entry_njit
def solve_relay(edges: Edges, facts: RelayFacts, first: Domains, rollouts: Rollouts) -> Ints:
    """One partition per rollout that is valid under the relay rule.

    Args:
        edges: of the rule graph.
        facts: what all rollouts share.
        first: closed domains that admit a partition.
        rollouts: what is to be drawn.

    Returns:
        `[B, n]`, chips.

    Raises:
        AssertionError: if no chip is possible for a node, which closed domains rule out.
    """
    n = first.low.size
    chips = np.empty((rollouts.streams.size, n), np.int32)
    lanes = room_for_lanes(first)
    matching, trial = room_for_matching(first, facts.matched.size)
    order, stack = np.empty(2 * n, np.int32), np.empty(n + 1, np.int32)
    rollouts.domains[:, :, 0] = _UNDECIDED
    for group in range(rollouts.groups.size - 1):
        begin, end = rollouts.groups[group], rollouts.groups[group + 1]
        fill_lanes(lanes, first, end - begin)
        reset_matching(matching, facts, first)
        _set_order(rollouts, group, order)
        for step in range(_first_step(rollouts, n), 2 * n):
            turn = _Turn(order[step], step, begin, end, step < n)
            u = turn.node
            raises, lowers = _decide_relay(facts, rollouts, lanes, matching, trial, turn)
            if not turn.keeps:
                clear(matching.open_bits, u)
            if raises:
                raise_rows(edges.following, lanes.low, u, stack)
            if lowers:
                raise_rows(edges.before, lanes.minus_high, u, stack)
        _write_chips(lanes, begin, end, chips)
    _fill_forced(rollouts.domains, chips)
    return chips


@entry_njit
def solve_adjacent(edges: Edges, facts: AdjacentFacts, first: Domains, rollouts: Rollouts) -> Ints:
    """As `solve_relay`, with dependencies that span at most one chip."""
    n = first.low.size
    chips = np.empty((rollouts.streams.size, n), np.int32)
    lanes = room_for_lanes(first)
    order = np.empty(2 * n, np.int32)
    room = room_for_spread(first.low)
    safe = np.empty(LANES, np.bool_)
    rollouts.domains[:, :, 0] = _UNDECIDED
    for group in range(rollouts.groups.size - 1):
        begin, end = rollouts.groups[group], rollouts.groups[group + 1]
        fill_lanes(lanes, first, end - begin)
        safe[:] = False
        _set_order(rollouts, group, order)
        for step in range(_first_step(rollouts, n), 2 * n):
            turn = _Turn(order[step], step, begin, end, step < n)
            u = turn.node
            raises, lowers = _decide_adjacent(facts, rollouts, lanes, safe, turn)
            if raises:
                spread(edges.following, facts.near.before, lanes.low, u, room)
            if lowers:
                spread(edges.before, facts.near.following, lanes.minus_high, u, room)
        _write_chips(lanes, begin, end, chips)
    _fill_forced(rollouts.domains, chips)
    return chips


@lean_inner_njit
def _first_step(rollouts: Rollouts, n: int) -> int:
    """The first of 2 n turns: in the first n proposals are kept, in the others chips are drawn."""
    return 0 if rollouts.proposals.shape[0] else n


@inner_njit
def _set_order(rollouts: Rollouts, group: int, order: Ints) -> None:
    """Fills `order[2 n]` with the order in which a group decides nodes, twice."""
    n, given = order.size // 2, rollouts.orders.shape[0]
    if given:
        order[:n] = rollouts.orders[min(group, given - 1)]
    else:
        order[:n] = np.arange(n)
        shuffle(order[:n], rollouts.group_streams, group)
    order[n:] = order[:n]


@lean_inner_njit
def _decide_relay(
    facts: RelayFacts,
    rollouts: Rollouts,
    lanes: Lanes,
    matching: Matching,
    trial: Trial,
    turn: _Turn,
) -> tuple[bool, bool]:
    """Decides a node in all lanes; whether that raises lower bounds and lowers upper ones.

    Args:
        facts: what all rollouts share.
        rollouts: what is to be drawn.
        lanes: domains.
        matching: the matchings.
        trial: space.
        turn: the node.
    """
    u, raises, lowers = turn.node, False, False
    for lane in range(turn.end - turn.begin):
        least, most = int(lanes.low[u, lane]), -int(lanes.minus_high[u, lane])
        if least == most:
            if not turn.keeps:
                hold(matching, lane, least)
            continue
        b = turn.begin + lane
        if turn.keeps:
            # Of the types that `_draw_relay` gives, for which a kernel is there.
            chip, low, high = int(np.int64(rollouts.proposals[b, u])), least, most
            if not least <= chip <= most:
                continue
            top = max(matching.top[lane], chip)
            decision = Decision(lane, u, chip, top, turn.step)
            if find_obstacle(facts, matching, lanes, decision, trial, not turn.keeps) >= 0:
                continue
        else:
            chip, low, high = _draw_relay(facts, rollouts, lanes, matching, trial, turn, lane)
        _set_chip(rollouts, lanes, lane, b, u, chip, low, high)
        hold(matching, lane, chip)
        matching.top[lane] = max(matching.top[lane], chip)
        raises |= chip > least
        lowers |= chip < most
    return raises, lowers


@lean_inner_njit
def _draw_relay(
    facts: RelayFacts,
    rollouts: Rollouts,
    lanes: Lanes,
    matching: Matching,
    trial: Trial,
    turn: _Turn,
    lane: int,
) -> tuple[int, int, int]:
    """Draws chips for a node until one is possible: that, and the bounds that were left then."""
    u, b = turn.node, turn.begin + lane
    low, high = int(lanes.low[u, lane]), -int(lanes.minus_high[u, lane])
    which = min(b, rollouts.weights.shape[0] - 1)
    refused, most_refused = trial.refused[:0], high - low
    while True:
        # Some chip of a closed domain is possible, and none is refused twice.
        assert most_refused >= 0
        assert low <= high
        chip = draw(low, high, refused, rollouts.weights, which, u, rollouts.streams, b)
        decision = Decision(lane, u, chip, max(matching.top[lane], chip), turn.step)
        obstacle = find_obstacle(facts, matching, lanes, decision, trial, not turn.keeps)
        if obstacle < 0:
            return chip, low, high
        most_refused -= 1
        if obstacle < chip:
            high = obstacle
        elif obstacle > chip:
            low = obstacle
        else:
            if refused.size == 0:
                refused = trial.refused
                refused[:] = False
            refused[chip] = True


@inlined_njit
def _decide_adjacent(
    facts: AdjacentFacts, rollouts: Rollouts, lanes: Lanes, safe: npt.NDArray[np.bool_], turn: _Turn
) -> tuple[bool, bool]:
    """As `_decide_relay`.

    Args:
        facts: what all rollouts share.
        rollouts: what is to be drawn.
        lanes: domains.
        safe: `[LANES]`, whether some source is on chip 0 permanently.
        turn: the node.
    """
    u, raises, lowers = turn.node, False, False
    differing = 0
    for lane in range(LANES):
        differing |= lanes.low[u, lane] ^ -lanes.minus_high[u, lane]
    if differing == 0:
        return raises, lowers
    for lane in range(turn.end - turn.begin):
        least, most = int(lanes.low[u, lane]), -int(lanes.minus_high[u, lane])
        if least == most:
            continue
        b = turn.begin + lane
        high = most if safe[lane] else _below_sources(facts, lanes, safe, u, lane)
        if turn.keeps:
            chip = int(rollouts.proposals[b, u])
            if not least <= chip <= high:
                continue
        else:
            which = min(b, rollouts.weights.shape[0] - 1)
            nothing = safe[:0]
            chip = draw(least, high, nothing, rollouts.weights, which, u, rollouts.streams, b)
        _set_chip(rollouts, lanes, lane, b, u, chip, least, high)
        raises |= chip > least
        lowers |= chip < most
    return raises, lowers


@inlined_njit
def _below_sources(
    facts: AdjacentFacts, lanes: Lanes, safe: npt.NDArray[np.bool_], u: int, lane: int
) -> int:
    """The highest chip of a node with which some source can stay on chip 0.

    The sources that may be there now bound how far above them it can be; what is there for good is
    noted.
    """
    most = -int(lanes.minus_high[u, lane])
    high = int(lanes.low[u, lane])
    for s in range(facts.sources.size):
        source = facts.sources[s]
        if lanes.low[source, lane] == 0:
            high = max(high, int(facts.span[u, s]))
            safe[lane] |= lanes.minus_high[source, lane] == 0
            if high >= most:
                return most
    return high


@inlined_njit
def _set_chip(
    rollouts: Rollouts, lanes: Lanes, lane: int, b: int, u: int, chip: int, low: int, high: int
) -> None:
    """Puts node u of rollout b on a chip from `low` to `high`."""
    if rollouts.domains.shape[0]:
        rollouts.domains[b, u, 0], rollouts.domains[b, u, 1] = low, high
    lanes.low[u, lane] = chip
    lanes.minus_high[u, lane] = -chip


@lean_inner_njit
def _write_chips(lanes: Lanes, begin: int, end: int, chips: Ints) -> None:
    """Fills in the chips of the rollouts of a group, all decided."""
    for b in range(begin, end):
        for v in range(chips.shape[1]):
            chips[b, v] = lanes.low[v, b - begin]


@inner_njit
def _fill_forced(domains: Ints, chips: Ints) -> None:
    """Fills in the domains of nodes that propagation decided."""
    for b in range(domains.shape[0]):
        for u in range(domains.shape[1]):
            if domains[b, u, 0] == _UNDECIDED:
                domains[b, u, 0] = domains[b, u, 1] = chips[b, u]
