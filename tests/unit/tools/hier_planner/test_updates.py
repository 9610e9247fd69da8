"""Gradient steps go on from what the draw left, and compute it again where weights have changed."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from hier_planner.networks import GroupInputs, Placer
from hier_planner.planner_settings import OURS, PlannerLayout, initial_weights
from hier_planner.updates import Batch, sample_devices, update

from mcm_models.ppo import adam

LAYOUT = PlannerLayout(groups=4, devices=3, types=2, hidden=6, grouper_hidden=5, type_width=2)


def test_two_epochs_are_two_updates():
    """The second of which reads the trace of the weights that the first one left."""
    rng = np.random.default_rng(8)
    placer = Placer(LAYOUT.hidden, 0.0)
    weights = initial_weights(LAYOUT.placer_shapes(), 1)
    features = rng.standard_normal((2, 4, LAYOUT.group_columns)).astype(np.float32)
    inputs = GroupInputs(*map(jnp.asarray, (features, np.zeros((4, 3)), np.zeros((2, 4, 3)))))
    uniforms = rng.random((2, 4)).astype(np.float32)
    devices, trace = sample_devices(placer, weights, inputs, uniforms)
    advantage = jnp.asarray(rng.standard_normal((2, 4)), jnp.float32)
    batch = Batch(inputs, devices, advantage, trace)
    rate = np.float32(0.1)

    def learned(settings, params, state, batch):
        return update(placer, settings, (params,), state, batch, None, rate)

    def begun():
        params = jax.tree.map(jnp.asarray, weights)
        return params, adam(OURS.gradient_norm, 0.0).init((params,))

    (both,), _, _ = learned(dataclasses.replace(OURS, epochs=2), *begun(), batch)
    (first,), state, _ = learned(OURS, *begun(), batch)
    again = placer.replay(first, inputs, devices)
    (stale,), _, _ = learned(OURS, *jax.tree.map(jnp.copy, (first, state)), batch)
    (second,), _, _ = learned(OURS, first, state, batch._replace(trace=again))
    far = 0.0
    leaves = (jax.tree.leaves(params) for params in (both, second, stale))
    for one, other, wrong in zip(*leaves, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
        far = max(far, float(np.abs(one - wrong).max()))
    assert far > 1e-2
