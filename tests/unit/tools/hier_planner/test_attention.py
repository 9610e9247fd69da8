"""Additive attention, and that its gradient is the one that JAX derives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hier_planner.recurrence import all_shares, read_by, shares_of

COUNT, QUERIES, STATES, WIDTH = 3, 6, 4, 5


def plain(query, memory, weights):
    """What is read, in one expression that JAX derives."""
    matched = jnp.tanh(query[:, :, None] + memory[:, None]) @ weights
    return jax.nn.softmax(matched[..., 0], axis=-1) @ memory


def drawn(samples, rng):
    shapes = ((COUNT, QUERIES, WIDTH), (samples, STATES, WIDTH), (WIDTH, 1))
    return tuple(jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in shapes)


@pytest.mark.parametrize("samples", [1, COUNT])
def test_gradient_equals_the_derived_one(samples):
    """With a memory for each sample, and with one for all."""
    rng = np.random.default_rng(5)
    given = drawn(samples, rng)
    of_read = rng.standard_normal((COUNT, QUERIES, WIDTH)).astype(np.float32)
    shares = jax.jit(all_shares)(*given)

    def loss(query, memory, weights):
        return jnp.sum(plain(query, memory, weights) * of_read)

    def ours(query, memory, weights):
        return jnp.sum(read_by(shares, query, memory, weights) * of_read)

    of_loss, expected = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(*given)
    of_ours, found = jax.jit(jax.value_and_grad(ours, (0, 1, 2)))(*given)
    np.testing.assert_allclose(of_ours, of_loss, rtol=1e-5)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other)


@pytest.mark.parametrize("samples", [1, COUNT])
def test_shares_one_query_at_a_time(samples):
    given = drawn(samples, np.random.default_rng(6))
    found = jax.jit(all_shares)(*given)
    np.testing.assert_allclose(found, jax.jit(shares_of)(*given), rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-6)
