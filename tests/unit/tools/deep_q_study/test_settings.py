"""Settings by name, and what is refused."""

from __future__ import annotations

import pytest
from deep_q_study.learner import PUBLISHED, DqnSettings, improved
from deep_q_study.network import QLayout


def test_published_settings_are_those_of_the_paper():
    for settings in PUBLISHED.values():
        assert (settings.alpha, settings.beta) == (0.2, 0.6)
        assert (settings.batch, settings.gamma, settings.replay) == (64, 0.6, 2000)
        assert settings.sync_every == 100
        assert (settings.first_epsilon, settings.last_epsilon) == (1.0, 0.1)
        assert settings.double
        assert settings.returns == "one-step"
        assert settings.final_rate == 1.0
    rates = {name: settings.learning_rate for name, settings in PUBLISHED.items()}
    assert rates == {"opp": 5e-4, "adp": 5e-4, "pp": 1e-3}
    spans = {name: settings.epsilon_iterations for name, settings in PUBLISHED.items()}
    assert spans == {"opp": 2000, "adp": 500, "pp": 10_000}


def test_epsilon_falls_linearly():
    settings = PUBLISHED["adp"]
    found = [settings.epsilon_at(iteration) for iteration in (0, 250, 500, 9000)]
    assert found == pytest.approx([1.0, 0.55, 0.1, 0.1])


def test_what_measured_better_changes_returns_and_rates_alone():
    found, base = improved(PUBLISHED["opp"]), PUBLISHED["opp"]
    assert (found.gamma, found.returns, found.final_rate) == (1.0, "monte-carlo", 0.1)
    assert (found.batch, found.replay, found.alpha) == (base.batch, base.replay, base.alpha)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 0},
        {"learning_rate": -1e-4},
        {"gamma": 1.5},
        {"alpha": -0.1},
        {"lanes": 2, "greedy_lanes": 3},
    ],
)
def test_numbers_out_of_range_are_refused(changes):
    with pytest.raises(ValueError):
        DqnSettings(**changes)


@pytest.mark.parametrize(
    "numbers", [(0, 0, 2), (-1, 3, 2), (2, 3, 0), (2, 3, 2, ()), (2, 3, 2, (0,))]
)
def test_layouts_of_nothing_are_refused(numbers):
    with pytest.raises(ValueError):
        QLayout(*numbers)
