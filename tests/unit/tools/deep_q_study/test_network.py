"""Values of actions: the dueling formula, its gradient, and Adam."""

from __future__ import annotations

import numpy as np
import pytest
from deep_q_study.network import FORBIDDEN, Adam, QLayout, gradients, initial_weights, q_values

CANDIDATES = QLayout(features=3, context=4, actions=5, hidden=(7, 6))
FLAT = QLayout(features=0, context=4, actions=5, hidden=(7, 6))
BOTH = pytest.mark.parametrize("layout", [CANDIDATES, FLAT], ids=["candidates", "flat"])


def restless(layout, seed=0):
    """Weights far from zero, biases as well."""
    rng = np.random.default_rng(seed)
    return {
        name: (0.5 * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in layout.shapes().items()
    }


def by_hand(layout, weights, candidates, context, mask):
    """The formula for one state, in loops."""
    hidden = []
    for action in range(1 if layout.is_flat else layout.actions):
        row = context if layout.is_flat else np.concatenate([candidates[action], context])
        for k in range(len(layout.hidden)):
            row = np.maximum(row @ weights[f"layer{k}/kernel"] + weights[f"layer{k}/bias"], 0)
        hidden.append(row)
    allowed = np.flatnonzero(mask)
    if layout.is_flat:
        advantage, pooled = hidden[0] @ weights["advantage/kernel"], hidden[0]
    else:
        advantage = np.array([row @ weights["advantage/kernel"][:, 0] for row in hidden])
        pooled = np.mean([hidden[action] for action in allowed], axis=0)
    value = (pooled @ weights["value/kernel"] + weights["value/bias"])[0]
    found = np.full(layout.actions, FORBIDDEN)
    found[allowed] = value + advantage[allowed] - advantage[allowed].mean()
    return found


@BOTH
def test_dueling_formula(layout, observations):
    weights, seen = restless(layout), observations(layout)
    found = q_values(layout, weights, *seen)
    for row, (candidates, context, mask) in enumerate(zip(*seen, strict=True)):
        expected = by_hand(layout, weights, candidates, context, mask)
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-5)
        assert found[row].argmax() in np.flatnonzero(mask)


@BOTH
def test_gradients_are_measured_differences(layout, observations):
    weights = {name: part.astype(np.float64) for name, part in restless(layout).items()}
    candidates, context, mask = observations(layout)
    slope = np.random.default_rng(1).standard_normal(mask.shape) * mask

    def total(name, spot, step):
        moved = weights | {name: weights[name].copy()}
        moved[name][spot] += step
        values = q_values(layout, moved, candidates, context, mask)
        return np.where(mask, slope * values, 0.0).sum()

    found = gradients(layout, weights, candidates, context, mask.astype(np.float32), slope)
    assert found.keys() == weights.keys()
    for name, part in found.items():
        assert part.shape == weights[name].shape
        for spot in np.ndindex(part.shape):
            measured = (total(name, spot, 1e-5) - total(name, spot, -1e-5)) / 2e-5
            assert part[spot] == pytest.approx(measured, rel=1e-4, abs=1e-5)


def test_adam_is_that_of_optax():
    import jax.numpy as jnp
    import optax

    rng = np.random.default_rng(0)
    weights = {"a": rng.standard_normal(5).astype(np.float32)}
    other = {"a": jnp.asarray(weights["a"])}
    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.01))
    state, mine = chain.init(other), Adam(1.0)
    for _ in range(4):
        slope = {"a": (3 * rng.standard_normal(5)).astype(np.float32)}
        weights = mine.update(weights, slope, 0.01)
        change, state = chain.update(slope, state)
        other = optax.apply_updates(other, change)
    np.testing.assert_allclose(weights["a"], other["a"], rtol=1e-4)


def test_first_weights_depend_on_the_seed_alone():
    first, again = initial_weights(CANDIDATES, 3), initial_weights(CANDIDATES, 3)
    assert all(np.array_equal(first[name], again[name]) for name in CANDIDATES.shapes())
    assert not np.array_equal(
        first["layer0/kernel"], initial_weights(CANDIDATES, 4)["layer0/kernel"]
    )
