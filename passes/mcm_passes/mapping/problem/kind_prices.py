"""Prices of a second on chips of each kind, which prove a bound on shared work.

Let `t[k, u]` be the seconds of unit u on a chip of kind k at speed 1, and `v[c]` the speed of chip
c. For prices `p[k] >= 0`, all chips of period B have work worth at most `B * sum over c of
p[kind of c] * v[c]`, and each unit is worth at least the least of `p[k] * t[k, u]`. So

    B >= sum over u of min over k of p[k] * t[k, u]  /  sum over c of p[kind of c] * v[c]

whatever the prices. The best ones are the duals of the linear program in which units may be divided
over chips. Problems and certificates store them, so that a checker needs no solver.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Floats

END = 1e6
"""Factor to the price of a kind that stands for the ends of all prices, 0 and infinity."""

ROUNDS = 40
"""Times that the price of each kind is chosen at most."""


def worth_of(seconds: Floats, prices: Floats, room: Floats) -> float:
    """The bound that prices prove: what all units are worth, for what all chips together have.

    Args:
        seconds: `[K, N]`, infinite where a kind cannot run a unit.
        prices: `[K]`, positive.
        room: `[K]`, sum of the speeds of the chips of each kind.
    """
    worth = (prices[:, np.newaxis] * seconds).min(axis=0)
    return float(worth.sum() / (prices @ room))


def best_prices(seconds: Floats, room: Floats) -> Floats:
    """`[K]`, prices that are the best for two kinds, and close to it for more.

    The price of one kind after the other is chosen, until none is better: the bound is concave in
    prices that are normalised, but has edges where such steps may end.

    Args:
        seconds: `[K, N]`, infinite where a kind cannot run a unit.
        room: `[K]`, sum of the speeds of the chips of each kind, positive.
    """
    prices = np.full(len(room), 1.0 / room.sum())
    best = worth_of(seconds, prices, room)
    for _ in range(ROUNDS):
        before = best
        for kind in range(len(room) if len(room) > 1 else 0):
            for price in _tried_prices(seconds, room, prices, kind):
                found = prices.copy()
                found[kind] = price
                worth = worth_of(seconds, found, room)
                if worth > best:
                    prices, best = found / float(found @ room), worth
        if best <= before:
            break
    return prices


def _tried_prices(seconds: Floats, room: Floats, prices: Floats, kind: int) -> list[float]:
    """Prices of one kind, where those of the others stay, one of which is about the best.

    As a function of it the bound is a concave function with edges over a linear one. So the best
    price is at an edge, where a unit is worth as much on this kind as elsewhere, or at an end.
    """
    ends = [float(prices[kind]) / END, float(prices[kind]) * END]
    others = np.arange(len(room)) != kind
    elsewhere = (prices[others, np.newaxis] * seconds[others]).min(axis=0)
    # A unit that runs on this kind or on others alone has no edge.
    shared = np.isfinite(elsewhere) & np.isfinite(seconds[kind]) & (seconds[kind] > 0.0)
    if not shared.any():
        return ends
    edge = elsewhere[shared] / seconds[kind][shared]
    order = np.argsort(edge, kind="stable")
    edge, there = edge[order], elsewhere[shared][order]
    here = seconds[kind][shared][order]
    # Up to its edge a unit is worth its seconds here at this price, beyond it what it is elsewhere.
    cheaper = np.cumsum(there) - there
    dearer = here.sum() - (np.cumsum(here) - here)
    always = elsewhere[np.isinf(seconds[kind])].sum()
    only = seconds[kind][np.isinf(elsewhere)].sum()
    rest = float(prices[others] @ room[others])
    worth = (always + cheaper + edge * (dearer + only)) / (rest + room[kind] * edge)
    found = float(edge[int(worth.argmax())])
    return [found, *ends] if found > 0.0 else ends
