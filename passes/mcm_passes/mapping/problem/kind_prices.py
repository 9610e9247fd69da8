"""Prices of a second on devices of each kind, which prove a bound on work that all of them share.

This is the linear program of scheduling on unrelated machines: minimise T where kind c has m_c
devices, so that the shares of ops on it take m_c T at most. Its dual has one price per kind: for
prices p >= 0 with sum m_c p_c = 1, T is at least the sum over ops of their cheapest `p_c times t`.
Any such prices give a bound. The best of two kinds are those at which some op costs the same on
both; of more, they are found by cutting planes (Kelley 1960, "The Cutting-Plane Method for Solving
Convex Programs"). A device of speed v counts as v devices. Certificates store prices, so that a
checker needs no solver.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Floats

ROUNDS = 60
"""Cutting planes at most."""

GAP = 1e-4
"""Share by which a further plane has to promise more."""


def best_prices(times: Floats, counts: Floats) -> Floats:
    """`[C]`, the prices whose bound is largest; of more than two, to within a ten-thousandth.

    Args:
        times: `[n, C]`, seconds on each class, infinite where an op cannot run there; each op can
            run somewhere.
        counts: `[C]`, devices of each class.
    """
    uniform = np.full(len(counts), 1.0 / counts.sum())
    if len(counts) == 1 or not len(times):
        return uniform
    if len(counts) == 2:
        return _best_of_two(times, counts)
    from ortools.linear_solver import pywraplp

    solver: Any = pywraplp.Solver.CreateSolver("GLOP")
    prices = [solver.NumVar(0.0, 1.0, "") for _ in counts]
    value = solver.NumVar(0.0, solver.infinity(), "")
    solver.Add(sum(float(m) * p for m, p in zip(counts, prices, strict=True)) == 1.0)
    solver.Maximize(value)
    at, best, found = uniform, uniform, 0.0
    for _ in range(ROUNDS):
        worth, load = priced(times, at)
        if worth > found:
            best, found = at, worth
        solver.Add(value <= sum(float(s) * p for s, p in zip(load, prices, strict=True)))
        if solver.Solve() != pywraplp.Solver.OPTIMAL or value.solution_value() <= found * (1 + GAP):
            break
        at = np.maximum([p.solution_value() for p in prices], 0.0)
        at = at / float((counts * at).sum())
    return best


def _best_of_two(times: Floats, counts: Floats) -> Floats:
    """The best prices of two classes: the bound is concave in them, with a corner for each op."""
    one, two = times[:, 0], times[:, 1]
    both = np.isfinite(one) & np.isfinite(two)
    # The price of the first class over that of the second at which an op costs the same.
    ratio = np.full(len(times), np.inf)
    ratio[np.isinf(one)] = 0.0
    ratio[both] = two[both] / np.maximum(one[both], 1e-300)
    order = np.argsort(ratio, kind="stable")
    ratio = ratio[order]
    # Up to its corner an op is cheaper on the first class, beyond it on the second.
    on_one = np.where(np.isfinite(one), one, 0.0)[order]
    on_two = np.where(np.isfinite(two), two, 0.0)[order]
    first = np.concatenate([on_one[::-1].cumsum()[::-1], [0.0]])
    second = np.concatenate([[0.0], on_two.cumsum()])
    corners = np.concatenate([[0.0], ratio, [np.inf]])
    finite = np.isfinite(corners)
    prices = np.empty((len(corners), 2))
    prices[finite, 1] = 1.0 / (counts[0] * corners[finite] + counts[1])
    prices[finite, 0] = corners[finite] * prices[finite, 1]
    prices[~finite] = [1.0 / counts[0], 0.0]
    below = np.searchsorted(ratio, corners, side="left")
    # At price 0 of the first kind, what it cannot run costs its time on the second one.
    below[0] = np.searchsorted(ratio, 0.0, side="right")
    worth = prices[:, 0] * first[below] + prices[:, 1] * second[below]
    return prices[int(np.argmax(worth))]


def priced(times: Floats, prices: Floats) -> tuple[float, Floats]:
    """The bound of some prices, and the seconds that each class gets where ops go by them."""
    if not len(times):
        return 0.0, np.zeros(len(prices))
    costs = weighed(times, prices)
    cheapest = costs.argmin(axis=1)
    rows = np.arange(len(times))
    load = np.bincount(cheapest, weights=times[rows, cheapest], minlength=len(prices))
    return float(costs[rows, cheapest].sum()), load.astype(np.float64)


def weighed(times: Floats, prices: Floats) -> Floats:
    """`[n, C]`, prices times seconds; infinite where an op cannot run, however low the price."""
    finite = np.isfinite(times)
    return np.where(finite, np.where(finite, times, 0.0) * prices, np.inf)
