"""Returns and double targets against loops."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from mcm_models.dqn import targets
from mcm_models.dqn.numpy_learner import numpy_cut_returns

huber, double_target = jax.jit(targets.huber), jax.jit(targets.double_target, static_argnums=4)
cut_returns = jax.jit(targets.cut_returns, static_argnums=3)


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
    plain = numpy_cut_returns(reward, done, cut, gamma)
    for step in range(steps):
        for lane in range(lanes):
            expected = by_hand(reward[:, lane], done[:, lane], cut[:, lane], gamma, step)
            for parts in (found, plain):
                here = [float(part[step, lane]) for part in parts]
                assert here == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_online_network_chooses_and_the_target_network_values():
    rng = np.random.default_rng(0)
    online, target = rng.standard_normal((2, 9, 4)).astype(np.float32)
    reward, discount = rng.standard_normal((2, 9)).astype(np.float32)
    double = [
        r + d * t[o.argmax()] for r, d, o, t in zip(reward, discount, online, target, strict=True)
    ]
    plain = [r + d * t.max() for r, d, t in zip(reward, discount, target, strict=True)]
    np.testing.assert_allclose(
        double_target(reward, discount, online, target, True), double, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        double_target(reward, discount, online, target, False), plain, rtol=1e-5, atol=1e-6
    )
    assert not np.allclose(double, plain)


def test_huber_is_linear_beyond_one():
    assert huber(np.array([0.0, 0.5, -1.0, 3.0])).tolist() == pytest.approx([0.0, 0.125, 0.5, 2.5])
