"""Prices of kinds of chips: what they prove, and how close to the best they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mcm_passes.mapping.problem.kind_prices import best_prices, priced


def proven(times, prices, room):
    return priced(times, prices)[0] / float(prices @ room)


def best_of_two(times, room):
    """The best bound of two kinds: units are divided by the ratio of their times, in order.

    The optimum of the linear program gives the units that are relatively fastest on the first kind
    to it, and at most one unit to both.
    """
    one, two = times.T
    order = np.argsort(one / two)
    for cut in range(len(order)):
        first, second = one[order[:cut]].sum(), two[order[cut + 1 :]].sum()
        here, there = one[order[cut]], two[order[cut]]
        # The share of this unit on the first kind that makes both equally busy.
        share = ((second + there) / room[1] - first / room[0]) / (here / room[0] + there / room[1])
        if 0 <= share <= 1:
            return (first + share * here) / room[0]
    return min(one.sum() / room[0], two.sum() / room[1])


@pytest.mark.parametrize("seed", range(20))
def test_two_kinds_have_the_prices_of_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    times = rng.uniform(0.1, 3.0, (int(rng.integers(1, 30)), 2))
    room = rng.uniform(0.5, 8.0, 2)
    found = proven(times, best_prices(times, room), room)
    assert found == pytest.approx(best_of_two(times, room), rel=1e-9)


def test_prices_of_three_kinds_are_at_least_the_best_on_a_grid():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        times, room = rng.uniform(0.1, 3.0, (40, 3)), rng.uniform(0.5, 8.0, 3)
        found = proven(times, best_prices(times, room), room)
        grid = np.geomspace(0.05, 20.0, 30)
        tried = (np.array([1.0, a, b]) for a, b in itertools.product(grid, grid))
        assert found >= 0.999 * max(proven(times, prices, room) for prices in tried)


def test_what_one_kind_alone_runs_is_divided_over_its_own_chips():
    room = np.array([1.0, 2.0])
    times = np.array([[1.0, np.inf], [np.inf, 6.0]])
    assert proven(times, best_prices(times, room), room) == pytest.approx(3.0)
