"""Figures are what they say, on cases that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_models.mapping_model.figures import figures_of, folds, spearman


def test_ranks_that_are_equal_share_their_mean() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 90.0])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1)
    assert spearman(np.ones(3), np.arange(3.0)) == 0
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
    found = spearman(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert found == pytest.approx(4.5 / np.sqrt(4.5 * 5))


def test_a_model_that_knows_everything() -> None:
    measured = [np.array([10.0, 12.0, 15.0, 11.0]), np.array([100.0, 90.0, 130.0, 95.0])]
    found = figures_of(measured, measured, [10.0, 80.0])
    assert (found.error, found.regret, found.pairs) == (0, 0, 1)
    assert (found.spearman, found.within, found.better_half) == pytest.approx((1, 1, 1))


def test_a_model_that_knows_the_graph_alone_has_no_order_within_it() -> None:
    measured = [np.array([10.0, 12.0, 14.0, 16.0]), np.array([100.0, 90.0, 130.0, 80.0])]
    guessed = [np.full(4, 13.0), np.full(4, 100.0)]
    found = figures_of(guessed, measured, [10.0, 10.0])
    assert found.spearman > 0.8
    assert (found.within, found.better_half) == (0, 0)
    # All are guessed to be best: 30 % and 25 % beyond the best on average.
    assert found.regret == pytest.approx(0.275)
    assert found.pairs == 0.5
    errors = [3 / 10, 1 / 12, 1 / 14, 3 / 16, 0, 1 / 9, 3 / 13, 1 / 4]
    assert found.error == pytest.approx(np.mean(errors))


def test_the_better_half_is_told_apart_from_the_rest() -> None:
    measured = [np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0])]
    guessed = [np.array([3.0, 2.0, 1.0, 10.0, 20.0, 30.0])]
    found = figures_of(guessed, measured, [1.0])
    assert found.better_half == pytest.approx(-1)
    assert found.within > 0.7
    assert found.regret == pytest.approx(2)


def test_pairs_count_where_they_are_apart() -> None:
    measured = [np.array([1.0, 1.005, 1.2, 1.3])]
    found = figures_of([np.array([2.0, 1.0, 3.0, 3.0])], measured, [1.0])
    # Of five pairs that are apart four are right, and one has equal guesses.
    assert found.pairs == pytest.approx(0.9)


def test_folds_share_nothing_and_leave_nothing_out() -> None:
    parts = folds(23, 5, 1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(23))
    assert {len(part) for part in parts} == {4, 5}
    assert [part.tolist() for part in folds(23, 5, 1)] == [part.tolist() for part in parts]
