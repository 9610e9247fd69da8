"""LSTMs over sequences, and that their gradient is the one that JAX derives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hier_planner.recurrence import lstm_outputs, run_lstm

STEPS, COUNT, WIDTH = 4, 3, 5


def arguments(rng):
    start = (rng.standard_normal((COUNT, WIDTH)), rng.standard_normal((COUNT, WIDTH)))
    given = rng.standard_normal((STEPS, COUNT, 4 * WIDTH))
    own = rng.standard_normal((WIDTH, 4 * WIDTH))
    made = (given, start, own, rng.standard_normal(1))
    return jax.tree.map(lambda array: jnp.asarray(array, jnp.float32), made)


def plain(given, start, own, forget):
    """States and the last cells, in a loop that JAX derives."""
    cell, last = start
    states = []
    for now in given:
        i, f, o, g = jnp.split(now + last @ own, 4, axis=-1)
        cell = jax.nn.sigmoid(i) * jnp.tanh(g) + jax.nn.sigmoid(f + forget) * cell
        last = jax.nn.sigmoid(o) * jnp.tanh(cell)
        states.append(last)
    return jnp.stack(states), cell


def from_steps(steps, *given):
    return lstm_outputs(*given, steps)


def test_gradient_equals_the_derived_one():
    rng = np.random.default_rng(3)
    given = arguments(rng)
    of_states = rng.standard_normal((STEPS, COUNT, WIDTH)).astype(np.float32)
    of_cell = rng.standard_normal((COUNT, WIDTH)).astype(np.float32)

    def loss(function):
        def of(*given):
            states, cell = function(*given)
            return jnp.sum(states * of_states) + jnp.sum(cell * of_cell), (states, cell)

        return of

    every = tuple(range(4))
    derived = jax.jit(jax.grad(loss(plain), every, has_aux=True))
    expected, plain_outputs = derived(*given)
    steps = jax.jit(run_lstm)(*given)
    known = jax.tree_util.Partial(from_steps, steps)
    found, outputs = jax.jit(jax.grad(loss(known), every, has_aux=True))(*given)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other)
    for one, other in zip(outputs, plain_outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_no_gradient_goes_to_steps():
    given = arguments(np.random.default_rng(4))
    steps = jax.jit(run_lstm)(*given)
    found = jax.jit(jax.grad(lambda steps: jnp.sum(lstm_outputs(*given, steps)[0])))(steps)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(found))
