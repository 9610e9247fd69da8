"""SAMPLE and FIX of MCM (algorithms 1 and 2) in batches, under the relay and the strict rule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from mcm_compiler.partition import Ints
from mcm_passes.solver.adjacent_domains import (
    NearGraph,
    new_near_state,
    place_near,
    start_near,
)
from mcm_passes.solver.random_stream import shuffle, uniform
from mcm_passes.solver.relay_domains import RelayGraph, RelayState, new_state, place, start

Words = npt.NDArray[np.uint64]
Singles = npt.NDArray[np.float32]


@njit(cache=True, nogil=True)
def solve_batch(
    graph: RelayGraph,
    low: Ints,
    high: Ints,
    num_chips: int,
    orders: Ints,
    proposals: Ints,
    weights: Singles,
    streams: Words,
) -> Ints:
    """One valid partition per rollout.

    Args:
        graph: what all rollouts share.
        low: `[n]`, closed domains.
        high: `[n]`, likewise.
        num_chips: C.
        orders: `[B, n]`, order in which nodes are decided, or `[0, n]` for one at random each.
        proposals: `[B, n]`, for FIX the chips to keep where possible, or `[0, n]` for SAMPLE.
        weights: `[B, n, C]`, `[1, n, C]` for the same in all rollouts, or `[0, n, C]` for
            uniform; non-negative, with any sum. Where all weights in a domain are 0 it is drawn
            from uniformly.
        streams: `[B]`, states of random streams.

    Returns:
        `[B, n]`, chips; -1 throughout where the domains admit nothing.
    """
    count, n = streams.size, low.size
    chips = np.empty((count, n), np.int32)
    state = new_state(n, num_chips)
    order = np.empty(n, np.int32)
    decided = np.empty(n, np.bool_)
    for b in range(count):
        if not start(state, low, high):
            chips[b] = -1
            continue
        if orders.shape[0]:
            order[:] = orders[b]
        else:
            order[:] = np.arange(n)
            shuffle(order, streams, b)
        which = -1 if weights.shape[0] == 0 else min(b, weights.shape[0] - 1)
        decided[:] = False
        if proposals.shape[0]:
            for u in order:
                chip = proposals[b, u]
                if state.low[u] <= chip <= state.high[u]:
                    decided[u] = place(graph, state, int(u), chip) == -1
        for u in order:
            if not decided[u]:
                _sample(graph, state, int(u), weights, which, streams, b)
        chips[b] = state.low
    return chips


@njit(cache=True, nogil=True)
def solve_batch_adjacent(
    graph: NearGraph,
    low: Ints,
    high: Ints,
    num_chips: int,
    orders: Ints,
    proposals: Ints,
    weights: Singles,
    streams: Words,
) -> Ints:
    """As `solve_batch`, with dependencies that span at most one chip; `low` and `high` closed."""
    count, n = streams.size, low.size
    chips = np.empty((count, n), np.int32)
    state = new_near_state(n, num_chips)
    order = np.empty(n, np.int32)
    decided = np.empty(n, np.bool_)
    none_excluded = np.zeros(0, np.bool_)
    for b in range(count):
        start_near(state, low, high)
        if orders.shape[0]:
            order[:] = orders[b]
        else:
            order[:] = np.arange(n)
            shuffle(order, streams, b)
        which = -1 if weights.shape[0] == 0 else min(b, weights.shape[0] - 1)
        decided[:] = False
        if proposals.shape[0]:
            for u in order:
                chip = proposals[b, u]
                if state.low[u] <= chip <= state.high[u]:
                    decided[u] = place_near(graph, state, int(u), chip)
        for u in order:
            if decided[u]:
                continue
            top = state.high[u]
            while True:
                chip = _draw(state.low[u], top, none_excluded, weights, which, int(u), streams, b)
                if place_near(graph, state, int(u), chip):
                    break
                top = chip - 1
        chips[b] = state.low
    return chips


@njit(cache=True, nogil=True, inline="always")
def _sample(
    graph: RelayGraph,
    state: RelayState,
    u: int,
    weights: Singles,
    which: int,
    streams: Words,
    stream: int,
) -> None:
    """Draws the chip of `u` from its domain, drawing again where the chip is impossible."""
    low, high = state.low[u], state.high[u]
    excluded = np.zeros(0, np.bool_)
    while True:
        chip = _draw(low, high, excluded, weights, which, u, streams, stream)
        answer = place(graph, state, u, chip)
        if answer == -1:
            return
        if answer < chip:
            high = answer
        elif answer > chip:
            low = answer
        else:
            if excluded.size == 0:
                excluded = np.zeros(state.held.size, np.bool_)
            excluded[chip] = True


@njit(cache=True, nogil=True, inline="always")
def _draw(
    low: int,
    high: int,
    excluded: npt.NDArray[np.bool_],
    weights: Singles,
    which: int,
    u: int,
    streams: Words,
    stream: int,
) -> int:
    if low == high:
        return low
    point = uniform(streams, stream)
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
