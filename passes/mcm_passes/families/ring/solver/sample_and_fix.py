"""SAMPLE and FIX of MCM (algorithms 1 and 2) for groups of rollouts that share their order."""

from __future__ import annotations

import numpy as np
from numba import njit

from mcm_compiler.partition import Ints, Longs
from mcm_passes.families.ring.solver.adjacent_domains import spread
from mcm_passes.families.ring.solver.lanes import LANES, Bounds, Singles, Words, draw, raise_rows
from mcm_passes.families.ring.solver.random_stream import shuffle
from mcm_passes.families.ring.solver.relay_domains import Cover, hold, mend, still_covered

_UNDECIDED = -1


@njit(cache=True, nogil=True)
def solve_relay(
    next_ptr: Longs,
    next_nodes: Ints,
    before_ptr: Longs,
    before_nodes: Ints,
    ancestors: Words,
    descendants: Words,
    first_low: Bounds,
    first_high: Bounds,
    first_witness: Ints,
    groups: Longs,
    orders: Ints,
    group_streams: Words,
    proposals: Ints,
    weights: Singles,
    streams: Words,
    domains: Ints,
) -> Ints:
    """One partition per rollout that is valid under the relay rule.

    Args:
        next_ptr: as in `RuleGraph`.
        next_nodes: likewise.
        before_ptr: likewise.
        before_nodes: likewise.
        ancestors: from `closure`.
        descendants: likewise.
        first_low: `[n]`, closed domains that admit a partition.
        first_high: `[n]`, likewise.
        first_witness: `[C]`, a node of its own for each chip up to the highest lower bound.
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

    Returns:
        `[B, n]`, chips.

    Raises:
        AssertionError: if no chip is possible for a node, which closed domains rule out.
    """
    n, num_chips = first_low.size, first_witness.size
    chips = np.empty((streams.size, n), np.int32)
    low = np.empty((n, LANES), first_low.dtype)
    minus_high = np.empty((n, LANES), first_low.dtype)
    vacant = np.empty((LANES, num_chips), np.int32)
    place_of = np.empty((LANES, num_chips), np.int32)
    witness = np.empty((LANES, num_chips), np.int32)
    num_vacant = np.empty(LANES, np.int32)
    words = (n + 63) // 64
    open_bits, shrunk_at = np.empty(words, np.uint64), np.empty(words, np.int32)
    lowest = np.empty((words, LANES), first_low.dtype)
    minus_highest = np.empty((words, LANES), first_low.dtype)
    cover = Cover(
        vacant, num_vacant, place_of, witness, open_bits, lowest, minus_highest, shrunk_at
    )
    top = np.empty(LANES, np.int32)
    order, stack = np.empty(n, np.int32), np.empty(n + 1, np.int32)
    none_excluded = np.zeros(0, np.bool_)
    domains[:, :, 0] = _UNDECIDED
    for group in range(groups.size - 1):
        begin, count = groups[group], groups[group + 1] - groups[group]
        for v in range(n):
            for lane in range(LANES):
                low[v, lane] = first_low[v]
                minus_high[v, lane] = -(first_high[v] if lane < count else first_low[v])
        for k in range(num_chips):
            vacant[:, k] = k
            place_of[:, k] = k
            witness[:, k] = first_witness[k]
        num_vacant[:] = num_chips
        open_bits[:] = ~np.uint64(0)
        if n & 63:
            open_bits[n >> 6] = (np.uint64(1) << np.uint64(n & 63)) - np.uint64(1)
        lowest[:] = 0
        minus_highest[:] = 1 - num_chips
        shrunk_at[:] = -1
        top[:] = first_low.max()
        if orders.shape[0]:
            order[:] = orders[min(group, orders.shape[0] - 1)]
        else:
            order[:] = np.arange(n)
            shuffle(order, group_streams, group)
        for keeps in range(1 if proposals.shape[0] else 0, -1, -1):
            for i in range(n):
                u, step = order[i], keeps * n + i
                raises, lowers = False, False
                for lane in range(count):
                    least, most = int(low[u, lane]), -int(minus_high[u, lane])
                    if least == most:
                        if not keeps and place_of[lane, least] >= 0:
                            hold(vacant, num_vacant, place_of, witness, lane, least)
                        continue
                    b = begin + lane
                    if keeps:
                        want = int(proposals[b, u])
                        if not least <= want <= most:
                            continue
                        if not still_covered(
                            vacant,
                            num_vacant,
                            witness,
                            low,
                            minus_high,
                            lane,
                            max(top[lane], want),
                            u,
                            want,
                            ancestors,
                            descendants,
                        ):
                            answer = mend(
                                cover,
                                low,
                                minus_high,
                                lane,
                                max(top[lane], want),
                                u,
                                want,
                                ancestors[u],
                                descendants[u],
                                step,
                                False,
                            )
                            if answer != -1:
                                continue
                        chip, bottom, ceiling = want, least, most
                    else:
                        bottom, ceiling = least, most
                        which = -1 if weights.shape[0] == 0 else min(b, weights.shape[0] - 1)
                        excluded, refused = none_excluded, 0
                        while True:
                            # Some chip of a closed domain is possible, and none is refused twice.
                            assert refused <= most - least
                            assert bottom <= ceiling
                            chip = draw(bottom, ceiling, excluded, weights, which, u, streams, b)
                            if still_covered(
                                vacant,
                                num_vacant,
                                witness,
                                low,
                                minus_high,
                                lane,
                                max(top[lane], chip),
                                u,
                                chip,
                                ancestors,
                                descendants,
                            ):
                                break
                            answer = mend(
                                cover,
                                low,
                                minus_high,
                                lane,
                                max(top[lane], chip),
                                u,
                                chip,
                                ancestors[u],
                                descendants[u],
                                step,
                                True,
                            )
                            if answer == -1:
                                break
                            refused += 1
                            if answer < chip:
                                ceiling = answer
                            elif answer > chip:
                                bottom = answer
                            else:
                                if excluded.size == 0:
                                    excluded = np.zeros(num_chips, np.bool_)
                                excluded[chip] = True
                    if domains.shape[0]:
                        domains[b, u, 0], domains[b, u, 1] = bottom, ceiling
                    hold(vacant, num_vacant, place_of, witness, lane, chip)
                    top[lane] = max(top[lane], chip)
                    raises |= chip > least
                    lowers |= chip < most
                    low[u, lane] = chip
                    minus_high[u, lane] = -chip
                if not keeps:
                    open_bits[u >> 6] &= ~(np.uint64(1) << np.uint64(u & 63))
                if raises:
                    raise_rows(next_ptr, next_nodes, low, u, stack)
                if lowers:
                    raise_rows(before_ptr, before_nodes, minus_high, u, stack)
        for lane in range(count):
            for v in range(n):
                chips[begin + lane, v] = low[v, lane]
    _forced(domains, chips)
    return chips


@njit(cache=True, nogil=True)
def solve_adjacent(
    next_ptr: Longs,
    next_nodes: Ints,
    before_ptr: Longs,
    before_nodes: Ints,
    beside_next_ptr: Longs,
    beside_next_nodes: Ints,
    beside_before_ptr: Longs,
    beside_before_nodes: Ints,
    sources: Ints,
    span: Bounds,
    first_low: Bounds,
    first_high: Bounds,
    groups: Longs,
    orders: Ints,
    group_streams: Words,
    proposals: Ints,
    weights: Singles,
    streams: Words,
    domains: Ints,
) -> Ints:
    """As `solve_relay`, with dependencies that span at most one chip.

    Args:
        next_ptr: as in `RuleGraph`.
        next_nodes: likewise.
        before_ptr: likewise.
        before_nodes: likewise.
        beside_next_ptr: CSR of successors and of nodes tied to each.
        beside_next_nodes: likewise.
        beside_before_ptr: CSR of predecessors and of nodes tied to each.
        beside_before_nodes: likewise.
        sources: nodes without predecessors.
        span: as in `NearGraph`.
        first_low: `[n]`, closed domains that admit a partition.
        first_high: `[n]`, likewise.
        groups: as for `solve_relay`; likewise those that follow.
        orders: likewise.
        group_streams: likewise.
        proposals: likewise.
        weights: likewise.
        streams: likewise.
        domains: likewise.
    """
    n = first_low.size
    chips = np.empty((streams.size, n), np.int32)
    low = np.empty((n, LANES), first_low.dtype)
    minus_high = np.empty((n, LANES), first_low.dtype)
    order, level = np.empty(n, np.int32), np.empty(n, np.int32)
    room, base = np.empty((2, 2 * n + 2), np.int32), np.empty(LANES, first_low.dtype)
    none_excluded = np.zeros(0, np.bool_)
    safe = np.empty(LANES, np.bool_)
    domains[:, :, 0] = _UNDECIDED
    for group in range(groups.size - 1):
        begin, count = groups[group], groups[group + 1] - groups[group]
        for v in range(n):
            for lane in range(LANES):
                low[v, lane] = first_low[v]
                minus_high[v, lane] = -(first_high[v] if lane < count else first_low[v])
        # Whether some source is on chip 0 for good.
        safe[:] = False
        if orders.shape[0]:
            order[:] = orders[min(group, orders.shape[0] - 1)]
        else:
            order[:] = np.arange(n)
            shuffle(order, group_streams, group)
        for keeps in range(1 if proposals.shape[0] else 0, -1, -1):
            for i in range(n):
                u = order[i]
                differing = 0
                for lane in range(LANES):
                    differing |= low[u, lane] ^ -minus_high[u, lane]
                if differing == 0:
                    continue
                raises, lowers = False, False
                for lane in range(count):
                    least, most = int(low[u, lane]), -int(minus_high[u, lane])
                    if least == most:
                        continue
                    ceiling = most
                    if not safe[lane]:
                        # Some source stays on chip 0; those on it now bound how far u can be.
                        ceiling = least
                        for s in range(sources.size):
                            if low[sources[s], lane] == 0:
                                ceiling = max(ceiling, int(span[u, s]))
                                safe[lane] |= minus_high[sources[s], lane] == 0
                                if ceiling >= most:
                                    ceiling = most
                                    break
                    b = begin + lane
                    if keeps:
                        chip = int(proposals[b, u])
                        if not least <= chip <= ceiling:
                            continue
                    else:
                        which = -1 if weights.shape[0] == 0 else min(b, weights.shape[0] - 1)
                        chip = draw(least, ceiling, none_excluded, weights, which, u, streams, b)
                    if domains.shape[0]:
                        domains[b, u, 0], domains[b, u, 1] = least, ceiling
                    raises |= chip > least
                    lowers |= chip < most
                    low[u, lane] = chip
                    minus_high[u, lane] = -chip
                if raises:
                    spread(
                        next_ptr,
                        next_nodes,
                        beside_before_ptr,
                        beside_before_nodes,
                        low,
                        u,
                        base,
                        level,
                        room,
                    )
                if lowers:
                    spread(
                        before_ptr,
                        before_nodes,
                        beside_next_ptr,
                        beside_next_nodes,
                        minus_high,
                        u,
                        base,
                        level,
                        room,
                    )
        for lane in range(count):
            for v in range(n):
                chips[begin + lane, v] = low[v, lane]
    _forced(domains, chips)
    return chips


@njit(cache=True, nogil=True)
def _forced(domains: Ints, chips: Ints) -> None:
    """Fills in the domains of nodes that propagation decided."""
    for b in range(domains.shape[0]):
        for u in range(domains.shape[1]):
            if domains[b, u, 0] == _UNDECIDED:
                domains[b, u, 0] = domains[b, u, 1] = chips[b, u]
