"""Learning: bytes for a seed, returns, and the answers that are found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from deep_q_study.decision_environment import CONTEXT, DecisionEnvironment
from deep_q_study.learner import PUBLISHED, Learner, cut_returns, improved
from deep_q_study.network import QLayout

LAYOUT = QLayout(2, CONTEXT, 2, (16,))
SETTINGS = dataclasses.replace(
    improved(PUBLISHED["adp"]), lanes=4, updates=4, batch=16, replay=64, epsilon_iterations=40
)


def learner_of(arrays, seed, settings=SETTINGS, iterations=80):
    return Learner(DecisionEnvironment(arrays), LAYOUT, settings, seed, iterations)


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


def test_the_same_seed_gives_the_same_bytes(arrays_of):
    arrays = arrays_of(5, terms=1)
    first, again, *other = (learner_of(arrays, seed) for seed in (1, 1, 2))
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


def test_most_small_problems_are_solved(arrays_of):
    solved = 0
    for seed in range(8):
        arrays = arrays_of(seed, terms=1)
        learner = learner_of(arrays, seed, iterations=160)
        progress = learner.advance(40)
        assert learner.finished
        assert learner.best_score <= best_value(arrays) + 1e-4
        assert progress.best_score[-1] == learner.best_score
        solved += learner.best_score == pytest.approx(best_value(arrays))
    assert solved >= 5


def test_published_one_step_returns_learn_as_well(arrays_of):
    arrays = arrays_of(1, terms=1)
    settings = dataclasses.replace(
        PUBLISHED["adp"], lanes=4, updates=4, batch=16, replay=64, epsilon_iterations=40
    )
    learner = learner_of(arrays, 0, settings)
    progress = learner.advance(20)
    assert learner.best_score == pytest.approx(best_value(arrays))
    assert progress.greedy_score[-1] > 0


def test_steps_after_exploration_can_be_left_out(arrays_of):
    settings = dataclasses.replace(SETTINGS, after_cut="drop")
    learner = learner_of(arrays_of(1), 0, settings, 40)
    assert np.isfinite(learner.advance(10).loss).all()


def by_hand(reward, done, cut, gamma, first):
    total, discount, step = 0.0, 1.0, first
    while True:
        total += discount * reward[step]
        discount *= gamma
        if done[step]:
            return total, 0.0, step + 1
        if cut[step + 1] or step + 1 == len(reward):
            return total, discount, step + 1
        step += 1


@pytest.mark.parametrize("gamma", [1.0, 0.6])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_returns_end_at_cuts(gamma, share):
    rng = np.random.default_rng(7)
    steps, lanes = 6, 5
    reward = rng.standard_normal((steps, lanes)).astype(np.float32)
    done = rng.random((steps, lanes)) < 0.1
    cut = rng.random((steps + 1, lanes)) < share
    cut[-1] = True
    found = cut_returns(reward, done, cut, gamma)
    for step in range(steps):
        for lane in range(lanes):
            expected = by_hand(reward[:, lane], done[:, lane], cut[:, lane], gamma, step)
            here = [float(part[step, lane]) for part in found]
            assert here == pytest.approx(expected, rel=1e-5, abs=1e-6)
