"""Groups are drawn by the inverse distribution function, and the gradient is that of its loss."""

from __future__ import annotations

import numpy as np

from mcm_models.planner.sampling import draw_groups, grouping_gradient


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_draws_invert_the_distribution_function():
    rng = np.random.default_rng(0)
    p = softmax(rng.standard_normal((7, 5))).astype(np.float32)
    p[0] = [0, 1, 0, 0, 0]
    uniforms = rng.random((7, 40), np.float32)
    chosen = np.empty((40, 7), np.int32)
    draw_groups(p, uniforms, chosen)
    for u in range(7):
        for k in range(40):
            expected = int((np.cumsum(p[u].astype(np.float64)) <= uniforms[u, k]).sum())
            assert chosen[k, u] == expected
    assert (chosen[:, 0] == 1).all()


def test_gradient_equals_differences():
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((3, 4))
    chosen = rng.integers(0, 4, (2, 3)).astype(np.int32)
    advantage = np.array([1.5, -0.5])
    weight = 0.3

    def gain(logits: np.ndarray) -> float:
        p = softmax(logits)
        picked = np.log(p)[np.arange(3), chosen].sum(axis=1)
        return float((advantage * picked).mean() - weight * (p * np.log(p)).sum())

    found = np.empty((3, 4), np.float32)
    p = softmax(logits).astype(np.float32)
    grouping_gradient(p, chosen, advantage.astype(np.float32), weight, found)
    for index in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[index] = 1e-5
        difference = (gain(logits + step) - gain(logits - step)) / 2e-5
        np.testing.assert_allclose(found[index], difference, atol=2e-5)
