"""Groups are drawn by the inverse distribution function, and the gradient is that of the loss."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hier_planner.networks import grouper_scores
from hier_planner.planner_settings import PlannerLayout, initial_weights
from hier_planner.sampling import UnitInputs, draw_groups

TYPES, COLUMNS = 3, 4


def units(rng, count=7, types=TYPES, columns=COLUMNS):
    """Some values are zero, as sizes of outputs mostly are."""
    values = rng.standard_normal((count, columns)) * rng.integers(0, 2, (count, columns))
    kinds = rng.integers(0, types, count).astype(np.int32)
    return UnitInputs.of(kinds, values.astype(np.float32), types)


def joined(inputs, types=TYPES):
    """`[U, T + F]`, in double precision."""
    return np.concatenate([np.eye(types)[inputs.unit_type], inputs.values], axis=1)


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("groups", [1, 5, 16, 37])
@pytest.mark.parametrize("level", [0.0, 0.5])
def test_draws_invert_the_distribution_function(groups, level):
    rng = np.random.default_rng(groups)
    inputs = units(rng, 600)
    adds = rng.standard_normal((TYPES + COLUMNS, groups)).astype(np.float32)
    noise = rng.standard_normal((600, groups)).astype(np.float32)
    uniforms = rng.random((600, 40), np.float32)
    drawn = draw_groups(inputs, adds, noise if level else None, level, uniforms, spread=True)
    scores = joined(inputs) @ adds.astype(np.float64)
    np.testing.assert_allclose(inputs.score_scale(adds), np.sqrt((scores**2).mean()), rtol=1e-9)
    p = softmax(scores + level * np.sqrt((scores**2).mean()) * noise)
    sums = np.cumsum(p, axis=1)[:, :-1]
    expected = (sums[:, None] <= uniforms[:, :, None]).sum(axis=-1).T
    apart = drawn.chosen != expected
    # Single precision decides otherwise only where a number lies at a border.
    near = np.abs(sums[:, None] - uniforms[:, :, None]).min(axis=-1, initial=1.0).T
    assert (near[apart] < 1e-5).all()
    assert apart.sum() <= 5
    entropy = -(p * np.log(p)).sum(axis=1)
    np.testing.assert_allclose(drawn.entropy, entropy.mean(), rtol=1e-5, atol=1e-7)
    x = joined(inputs)
    np.testing.assert_allclose(drawn.expected, x.T @ p, rtol=1e-5, atol=1e-5)
    spread = x.T @ (p * (np.log(p) + entropy[:, None]))
    np.testing.assert_allclose(drawn.spread, spread, rtol=1e-4, atol=1e-4)
    for k in range(2):
        taken = x.T @ np.eye(groups)[drawn.chosen[k]]
        np.testing.assert_allclose(drawn.taken[k], taken, rtol=1e-9, atol=1e-9)


def test_groups_without_chance_are_never_drawn():
    """Scores far apart, and uniform numbers at both ends."""
    inputs = UnitInputs.of(np.array([0, 1], np.int32), np.zeros((2, 1), np.float32), 2)
    adds = np.zeros((3, 20), np.float32)
    adds[0, 7] = 500.0
    adds[1, 18:] = 500.0
    uniforms = np.array([[0.0, 0.3, 1.0 - 2.0**-24]] * 2, np.float32)
    drawn = draw_groups(inputs, adds, None, 0.0, uniforms, spread=True)
    assert drawn.chosen.tolist() == [[7, 18], [7, 18], [7, 19]]
    np.testing.assert_allclose(drawn.entropy, np.log(2) / 2, rtol=1e-6)


def test_scores_that_are_no_numbers_give_groups():
    """The update tells that weights diverge; the draw before it must not leave its arrays."""
    inputs = units(np.random.default_rng(0))
    for wrong in (np.nan, np.inf, -np.inf):
        adds = np.full((TYPES + COLUMNS, 5), wrong, np.float32)
        drawn = draw_groups(inputs, adds, None, 0.0, np.full((7, 2), 0.9, np.float32), spread=True)
        assert ((drawn.chosen >= 0) & (drawn.chosen < 5)).all()


def test_gradient_equals_the_one_of_the_network():
    """That JAX derives from log-probabilities and entropies, through the Grouper."""
    rng = np.random.default_rng(1)
    layout = PlannerLayout(groups=20, devices=3, types=TYPES, grouper_hidden=5, type_width=2)
    weights = initial_weights(layout.grouper_shapes(), 4)
    params = jax.tree.map(jnp.asarray, weights)
    inputs = units(rng, 300, columns=layout.op_columns)
    noise = rng.standard_normal((300, 20)).astype(np.float32)
    uniforms = rng.random((300, 2), np.float32)
    advantage, level, weight = np.array([1.5, -0.5]), 0.5, 0.3
    adds = np.asarray(grouper_scores(params))
    drawn = draw_groups(inputs, adds, noise, level, uniforms, spread=True)

    def gain(params):
        joined = jnp.concatenate([params["types"][inputs.unit_type], inputs.values], axis=1)
        scores = joined @ params["hidden"] @ params["groups"]
        scale = jax.lax.stop_gradient(jnp.sqrt(jnp.mean(scores * scores)))
        log_p = jax.nn.log_softmax(scores + level * scale * noise)
        picked = log_p[np.arange(300), drawn.chosen].sum(axis=1)
        entropy = -jnp.sum(jnp.exp(log_p) * log_p)
        return (jnp.asarray(advantage, jnp.float32) * picked).mean() + weight * entropy

    def ours(params):
        return jnp.sum(grouper_scores(params) * drawn.gradient(advantage, weight))

    expected, found = jax.jit(jax.grad(gain))(params), jax.jit(jax.grad(ours))(params)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other)
