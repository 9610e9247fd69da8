"""Learning: bytes for a seed, and what comes of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mcm_models.dqn.decision_arrays import CONTEXT
from mcm_models.dqn.layout import QLayout
from mcm_models.dqn.numpy_decisions import NumpyDecisions
from mcm_models.dqn.numpy_learner import NumpyLearner
from mcm_models.dqn.settings import PUBLISHED, improved

LAYOUT = QLayout(2, CONTEXT, 2, (16,))
SETTINGS = dataclasses.replace(
    improved(PUBLISHED["adp"]), lanes=4, updates=4, batch=16, replay=64, epsilon_iterations=40
)


def jitted(arrays, seed, settings=SETTINGS, iterations=80):
    from mcm_models.dqn.decisions import DecisionEnvironment
    from mcm_models.dqn.training import Learner

    environment = DecisionEnvironment(len(arrays.item_class))
    return Learner.of(environment, arrays, LAYOUT, settings, seed, iterations)


def best_value(arrays):
    """Of all feasible decisions."""
    count = len(arrays.gain)
    best = 0.0
    for subset in range(1 << count):
        chosen = np.array([subset >> k & 1 for k in range(count)], dtype=bool)
        feasible = not arrays.blocked[chosen].any()
        if feasible and not arrays.conflicts[np.ix_(chosen, chosen)].any():
            paid = (arrays.term_class[:, chosen] > 0).any(axis=1)
            best = max(best, arrays.gain[chosen].sum() + arrays.term_gain[paid].sum())
    return best


@pytest.mark.parametrize("make", ["jit", "plain"])
def test_the_same_seed_gives_the_same_bytes(arrays_of, make):
    arrays = arrays_of(5, terms=1)

    def learner(seed):
        if make == "jit":
            return jitted(arrays, seed)
        return NumpyLearner(NumpyDecisions(arrays), LAYOUT, SETTINGS, seed, 80)

    first, again, *other = (learner(seed) for seed in ((1, 1) if make == "jit" else (1, 1, 2)))
    histories = []
    for one in (first, again, *other):
        parts = [one.advance(5) for _ in range(4)]
        assert one.finished
        assert one.iterations == 80
        histories.append(np.concatenate([part.loss for part in parts]).tobytes())
        assert np.isfinite(parts[-1].loss).all()
    assert histories[0] == histories[1]
    assert histories[0] not in histories[2:]
    assert all(np.array_equal(first.weights[name], again.weights[name]) for name in first.weights)
    assert first.best_score == again.best_score


@pytest.mark.parametrize("seed", range(3))
def test_small_problems_are_solved(arrays_of, seed):
    arrays = arrays_of(seed, terms=1)
    expected = best_value(arrays)
    learner = jitted(arrays, seed, iterations=160)
    for _ in range(8):
        progress = learner.advance(5)
    assert learner.best_score == pytest.approx(expected)
    assert progress.best_score[-1] == pytest.approx(expected)
    assert learner.finished
    assert learner.seconds > 0


def test_published_one_step_returns_learn_as_well(arrays_of):
    arrays = arrays_of(1, terms=1)
    settings = dataclasses.replace(
        PUBLISHED["adp"], lanes=4, updates=4, batch=16, replay=64, epsilon_iterations=40
    )
    learner = NumpyLearner(NumpyDecisions(arrays), LAYOUT, settings, 0, 80)
    progress = learner.advance(20)
    assert learner.best_score == pytest.approx(best_value(arrays))
    assert progress.greedy_score[-1] > 0


def test_steps_after_exploration_can_be_left_out(arrays_of):
    settings = dataclasses.replace(SETTINGS, after_cut="drop")
    learner = NumpyLearner(NumpyDecisions(arrays_of(1)), LAYOUT, settings, 0, 40)
    assert np.isfinite(learner.advance(10).loss).all()


def test_a_round_must_fit_the_replay(arrays_of):
    with pytest.raises(ValueError, match="cannot hold 4 episodes of 8 steps"):
        jitted(arrays_of(0), 0, dataclasses.replace(SETTINGS, replay=31))
