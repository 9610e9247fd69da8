"""SAMPLE and FIX of MCM (algorithms 1 and 2) for groups of rollouts that share their order."""

from __future__ import annotations

import numpy as np
from numba import njit

from mcm_compiler.partition import Ints, Longs
from mcm_passes.solver.adjacent_domains import spread
from mcm_passes.solver.lanes import LANES, Bounds, Singles, Words, draw, raise_rows
from mcm_passes.solver.random_stream import shuffle
from mcm_passes.solver.relay_domains import hold, keep_cover


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

    Returns:
        `[B, n]`, chips.
    """
    n, num_chips = first_low.size, first_witness.size
    chips = np.empty((streams.size, n), np.int32)
    low = np.empty((n, LANES), first_low.dtype)
    minus_high = np.empty((n, LANES), first_low.dtype)
    vacant = np.empty((LANES, num_chips), np.int32)
    place_of = np.empty((LANES, num_chips), np.int32)
    witness = np.empty((LANES, num_chips), np.int32)
    num_vacant = np.empty(LANES, np.int32)
    top = np.empty(LANES, np.int32)
    open_bits = np.empty((n + 63) // 64, np.uint64)
    order, stack = np.empty(n, np.int32), np.empty(n + 1, np.int32)
    none_excluded = np.zeros(0, np.bool_)
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
        top[:] = first_low.max()
        open_bits[:] = ~np.uint64(0)
        if n & 63:
            open_bits[n >> 6] = (np.uint64(1) << np.uint64(n & 63)) - np.uint64(1)
        if orders.shape[0]:
            order[:] = orders[min(group, orders.shape[0] - 1)]
        else:
            order[:] = np.arange(n)
            shuffle(order, group_streams, group)
        for keeps in range(1 if proposals.shape[0] else 0, -1, -1):
            for i in range(n):
                u = order[i]
                raises, lowers = False, False
                for lane in range(count):
                    least, most = int(low[u, lane]), -int(minus_high[u, lane])
                    if least == most:
                        if not keeps and place_of[lane, least] >= 0:
                            hold(vacant, num_vacant, place_of, witness, lane, least)
                        continue
                    b = begin + lane
                    chip = -1
                    if keeps:
                        want = proposals[b, u]
                        if least <= want <= most and -1 == keep_cover(
                            vacant,
                            num_vacant,
                            place_of,
                            witness,
                            top[lane],
                            low,
                            minus_high,
                            lane,
                            u,
                            want,
                            ancestors[u],
                            descendants[u],
                            open_bits,
                        ):
                            chip = want
                    else:
                        bottom, ceiling = least, most
                        which = -1 if weights.shape[0] == 0 else min(b, weights.shape[0] - 1)
                        excluded = none_excluded
                        while True:
                            chip = draw(bottom, ceiling, excluded, weights, which, u, streams, b)
                            answer = keep_cover(
                                vacant,
                                num_vacant,
                                place_of,
                                witness,
                                top[lane],
                                low,
                                minus_high,
                                lane,
                                u,
                                chip,
                                ancestors[u],
                                descendants[u],
                                open_bits,
                            )
                            if answer == -1:
                                break
                            if answer < chip:
                                ceiling = answer
                            elif answer > chip:
                                bottom = answer
                            else:
                                if excluded.size == 0:
                                    excluded = np.zeros(num_chips, np.bool_)
                                excluded[chip] = True
                    if chip < 0:
                        continue
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
    first_low: Bounds,
    first_high: Bounds,
    groups: Longs,
    orders: Ints,
    group_streams: Words,
    proposals: Ints,
    weights: Singles,
    streams: Words,
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
        first_low: `[n]`, closed domains that admit a partition.
        first_high: `[n]`, likewise.
        groups: as for `solve_relay`; likewise those that follow.
        orders: likewise.
        group_streams: likewise.
        proposals: likewise.
        weights: likewise.
        streams: likewise.
    """
    n = first_low.size
    chips = np.empty((streams.size, n), np.int32)
    low = np.empty((n, LANES), first_low.dtype)
    minus_high = np.empty((n, LANES), first_low.dtype)
    order, level = np.empty(n, np.int32), np.empty(n, np.int32)
    room, base = np.empty((2, 2 * n + 2), np.int32), np.empty(LANES, first_low.dtype)
    trail_nodes = np.empty(2 * n + 2, np.int32)
    trail = np.empty((2 * n + 2, LANES), first_low.dtype)
    none_excluded = np.zeros(0, np.bool_)
    least, ceiling = np.empty(LANES, np.int32), np.empty(LANES, np.int32)
    waiting, safe = np.empty(LANES, np.bool_), np.empty(LANES, np.bool_)
    first = np.empty(LANES, np.int32)
    for group in range(groups.size - 1):
        begin, count = groups[group], groups[group + 1] - groups[group]
        for v in range(n):
            for lane in range(LANES):
                low[v, lane] = first_low[v]
                minus_high[v, lane] = -(first_high[v] if lane < count else first_low[v])
        safe[:] = False
        safe[count:] = True
        first[:] = sources[0]
        all_safe = False
        if orders.shape[0]:
            order[:] = orders[min(group, orders.shape[0] - 1)]
        else:
            order[:] = np.arange(n)
            shuffle(order, group_streams, group)
        for keeps in range(1 if proposals.shape[0] else 0, -1, -1):
            for i in range(n):
                u = order[i]
                num_waiting = 0
                for lane in range(LANES):
                    num_waiting += low[u, lane] != -minus_high[u, lane]
                if num_waiting == 0:
                    continue
                for lane in range(LANES):
                    least[lane] = low[u, lane]
                    ceiling[lane] = -minus_high[u, lane]
                    waiting[lane] = least[lane] != ceiling[lane]
                lowers = False
                while num_waiting:
                    raises = False
                    for lane in range(LANES):
                        if not waiting[lane]:
                            continue
                        b = begin + lane
                        if keeps:
                            chip = proposals[b, u]
                            # Also where it has just been found impossible.
                            if not least[lane] <= chip <= ceiling[lane]:
                                waiting[lane] = False
                                num_waiting -= 1
                                continue
                        else:
                            which = -1 if weights.shape[0] == 0 else min(b, weights.shape[0] - 1)
                            chip = draw(
                                least[lane],
                                ceiling[lane],
                                none_excluded,
                                weights,
                                which,
                                u,
                                streams,
                                b,
                            )
                        low[u, lane] = chip
                        raises |= chip > least[lane]
                    length = 0
                    if raises:
                        length = spread(
                            next_ptr,
                            next_nodes,
                            beside_before_ptr,
                            beside_before_nodes,
                            low,
                            u,
                            base,
                            level,
                            room,
                            trail_nodes,
                            trail,
                            not all_safe,
                        )
                    for lane in range(LANES):
                        if not waiting[lane]:
                            continue
                        if not safe[lane] and low[first[lane], lane] != 0:
                            # Some other source on chip 0, or none: then it would be empty.
                            lost = True
                            for s in sources:
                                if low[s, lane] == 0:
                                    first[lane] = s
                                    lost = False
                                    break
                            if lost:
                                for t in range(length - 1, -1, -1):
                                    low[trail_nodes[t], lane] = trail[t, lane]
                                ceiling[lane] = low[u, lane] - 1
                                low[u, lane] = least[lane]
                                continue
                        waiting[lane] = False
                        num_waiting -= 1
                        chip = low[u, lane]
                        lowers |= chip < -minus_high[u, lane]
                        minus_high[u, lane] = -chip
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
                        trail_nodes,
                        trail,
                        False,
                    )
                    if not all_safe:
                        all_safe = True
                        for lane in range(LANES):
                            safe[lane] |= minus_high[first[lane], lane] == 0
                            all_safe &= safe[lane]
        for lane in range(count):
            for v in range(n):
                chips[begin + lane, v] = low[v, lane]
    return chips
