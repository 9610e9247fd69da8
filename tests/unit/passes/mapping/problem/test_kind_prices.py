"""Prices of kinds of chips: what they prove, and how close to the best they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mcm_passes.mapping.problem.kind_prices import best_prices, worth_of


def best_of_two(seconds, room):
    """The best bound of two kinds: units are divided by the ratio of their times, in order.

    The optimum of the linear program gives the units that are relatively fastest on the first kind
    to it, and at most one unit to both.
    """
    order = np.argsort(seconds[0] / seconds[1])
    for cut in range(len(order)):
        first, second = seconds[0][order[:cut]].sum(), seconds[1][order[cut + 1 :]].sum()
        here, there = seconds[0][order[cut]], seconds[1][order[cut]]
        # The share x of this unit on the first kind that makes both equally busy.
        share = ((second + there) / room[1] - first / room[0]) / (here / room[0] + there / room[1])
        if 0 <= share <= 1:
            return (first + share * here) / room[0]
    return min(seconds[0].sum() / room[0], seconds[1].sum() / room[1])


@pytest.mark.parametrize("seed", range(20))
def test_two_kinds_have_the_prices_of_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(0.1, 3.0, (2, int(rng.integers(1, 30))))
    room = rng.uniform(0.5, 8.0, 2)
    found = worth_of(seconds, best_prices(seconds, room), room)
    assert found == pytest.approx(best_of_two(seconds, room), rel=1e-9)


def test_prices_of_three_kinds_are_close_to_the_best_on_a_grid():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        seconds, room = rng.uniform(0.1, 3.0, (3, 40)), rng.uniform(0.5, 8.0, 3)
        found = worth_of(seconds, best_prices(seconds, room), room)
        grid = np.geomspace(0.05, 20.0, 40)
        tried = (np.array([1.0, a, b]) for a, b in itertools.product(grid, grid))
        assert found >= 0.98 * max(worth_of(seconds, prices, room) for prices in tried)


def test_what_one_kind_alone_runs_is_divided_over_its_own_chips():
    seconds = np.array([[1.0, np.inf], [np.inf, 6.0]])
    room = np.array([1.0, 2.0])
    assert worth_of(seconds, best_prices(seconds, room), room) == pytest.approx(3.0, rel=1e-5)
    shared = np.array([[1.0, 5.0], [np.inf, 6.0]])
    found = worth_of(shared, best_prices(shared, room), room)
    assert 1.0 < found <= 3.0
