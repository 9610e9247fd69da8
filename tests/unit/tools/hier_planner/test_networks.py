"""The networks equal a plain reading of the paper in NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hier_planner.networks import GroupInputs, LogitTable, Placer, grouper_scores
from hier_planner.planner_settings import PlannerLayout, initial_weights

LAYOUT = PlannerLayout(groups=4, devices=3, types=2, hidden=6, grouper_hidden=5, type_width=2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, state, w_in, w_own, forget):
    cell, last = state
    i, f, o, g = np.split(x @ w_in + last @ w_own, 4)
    cell = sigmoid(i) * np.tanh(g) + sigmoid(f + forget) * cell
    return cell, sigmoid(o) * np.tanh(cell)


def plain_placer(w, groups, prior, noise, uniforms, tanh_constant):
    """Devices and log-probabilities of one sample, step by step, in double precision."""
    w = {name: array.astype(np.float64) for name, array in w.items()}
    half = LAYOUT.hidden // 2
    there, back = [], [None] * len(groups)
    state = other = (np.zeros(half), np.zeros(half))
    for m in range(len(groups)):
        state = lstm(groups[m], state, w["forward_in"], w["forward_own"], w["encoder_forget"])
        there.append(state[1])
    for m in reversed(range(len(groups))):
        other = lstm(groups[m], other, w["backward_in"], w["backward_own"], w["encoder_forget"])
        back[m] = other[1]
    memory = np.array([np.concatenate(pair) for pair in zip(there, back, strict=True)])
    memory = memory @ w["memory"]
    state = tuple(np.concatenate(pair) for pair in zip(state, other, strict=True))
    signal, chosen, log_p = w["first"][0], [], []
    for m in range(len(groups)):
        state = lstm(signal, state, w["decoder_in"], w["decoder_own"], w["decoder_forget"])
        matched = np.tanh(state[1] @ w["query"] + memory) @ w["attention"][:, 0]
        share = np.exp(matched) / np.exp(matched).sum()
        scores = np.concatenate([state[1], share @ memory]) @ w["logits"]
        if tanh_constant:
            scores = tanh_constant * np.tanh(scores)
        scores = scores + prior[m] + noise[m] * np.sqrt((scores**2).mean())
        p = np.exp(scores) / np.exp(scores).sum()
        device = int((uniforms[m] >= np.cumsum(p)[:-1]).sum())
        chosen.append(device)
        log_p.append(np.log(p[device]))
        signal = w["devices"][device]
    return chosen, log_p


def test_placer_equals_plain_reading():
    rng = np.random.default_rng(2)
    weights = initial_weights(LAYOUT.placer_shapes(), 1)
    features = rng.random((2, 4, LAYOUT.group_columns)).astype(np.float32)
    prior = rng.random((4, 3)).astype(np.float32)
    noise = rng.standard_normal((2, 4, 3)).astype(np.float32)
    uniforms = rng.random((2, 4)).astype(np.float32)
    policy = Placer(LAYOUT.hidden, 1.0)

    @jax.jit
    def both(inputs, uniforms):
        chosen, trace = policy.sample(weights, inputs, uniforms)
        return chosen, policy.decide(weights, inputs, chosen, trace).log_p

    for shared in (False, True):
        given = features[:1] if shared else features
        inputs = GroupInputs(given, prior, noise)
        chosen, said = both(inputs, uniforms)
        for k in range(2):
            groups = given[0 if shared else k]
            devices, log_p = plain_placer(weights, groups, prior, noise[k], uniforms[k], 1.0)
            assert chosen[k].tolist() == devices
            np.testing.assert_allclose(said[k], log_p, rtol=1e-4)


def derived_log_p(w, groups, prior, noise, chosen):
    """Log-probabilities of one sample's devices, in loops that JAX derives."""

    def cell(x, state, w_in, w_own, forget):
        i, f, o, g = jnp.split(x @ w_in + state[1] @ w_own, 4)
        new = jax.nn.sigmoid(i) * jnp.tanh(g) + jax.nn.sigmoid(f + forget) * state[0]
        return new, jax.nn.sigmoid(o) * jnp.tanh(new)

    half, count = LAYOUT.hidden // 2, len(groups)
    there, back = [], [None] * count
    state = other = (jnp.zeros(half), jnp.zeros(half))
    for m in range(count):
        state = cell(groups[m], state, w["forward_in"], w["forward_own"], w["encoder_forget"])
        there.append(state[1])
    for m in reversed(range(count)):
        other = cell(groups[m], other, w["backward_in"], w["backward_own"], w["encoder_forget"])
        back[m] = other[1]
    memory = jnp.stack([jnp.concatenate(pair) for pair in zip(there, back, strict=True)])
    memory = memory @ w["memory"]
    state = tuple(jnp.concatenate(pair) for pair in zip(state, other, strict=True))
    signal, log_p = w["first"][0], []
    for m in range(count):
        state = cell(signal, state, w["decoder_in"], w["decoder_own"], w["decoder_forget"])
        matched = jnp.tanh(state[1] @ w["query"] + memory) @ w["attention"][:, 0]
        read = jax.nn.softmax(matched) @ memory
        scores = jnp.tanh(jnp.concatenate([state[1], read]) @ w["logits"])
        scale = jax.lax.stop_gradient(jnp.sqrt(jnp.mean(scores**2)))
        log_p.append(jax.nn.log_softmax(scores + prior[m] + noise[m] * scale)[chosen[m]])
        signal = w["devices"][chosen[m]]
    return jnp.stack(log_p)


@pytest.mark.parametrize("shared", [False, True])
def test_gradient_from_the_trace_equals_the_derived_one(shared):
    """From what the draw left, and from what is computed again for the same devices."""
    rng = np.random.default_rng(7)
    weights = initial_weights(LAYOUT.placer_shapes(), 1)
    # Far apart: over nearly equal states the gradient of queries cancels to rounding errors.
    groups = 5.0 * rng.standard_normal((1 if shared else 2, 4, LAYOUT.group_columns))
    groups = groups.astype(np.float32)
    prior = rng.random((4, 3)).astype(np.float32)
    noise = rng.standard_normal((2, 4, 3)).astype(np.float32)
    worth = rng.standard_normal((2, 4)).astype(np.float32)
    policy, params = Placer(LAYOUT.hidden, 1.0), jax.tree.map(jnp.asarray, weights)
    inputs = GroupInputs(jnp.asarray(groups), prior, noise)
    chosen, trace = jax.jit(policy.sample)(params, inputs, rng.random((2, 4)).astype(np.float32))
    again = jax.jit(policy.replay)(params, inputs, chosen)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(trace), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)

    def derived(weights):
        each = jax.vmap(derived_log_p, (None, None if shared else 0, None, 0, 0))
        return jnp.sum(each(weights, groups[0] if shared else groups, prior, noise, chosen) * worth)

    def ours(params, trace):
        return jnp.sum(policy.decide(params, inputs, chosen, trace).log_p * worth)

    expected, gradient = jax.jit(jax.grad(derived))(weights), jax.jit(jax.grad(ours))
    for known in (trace, again):
        found = gradient(params, known)
        for name, array in expected.items():
            assert np.linalg.norm(found[name] - array) <= 1e-5 * np.linalg.norm(array), name


def test_table_says_what_it_holds():
    table = np.log(np.array([[0.2, 0.8], [0.5, 0.5]], np.float32))
    policy, params = LogitTable(), {"table": table}
    inputs = GroupInputs(np.zeros((1, 2, 1)), np.zeros((2, 2)), np.zeros((3, 2, 2)))
    uniforms = np.array([[0.1, 0.4], [0.3, 0.6], [0.9, 0.9]], np.float32)
    chosen = np.asarray(jax.jit(policy.sample)(params, inputs, uniforms)[0])
    assert chosen.tolist() == [[0, 0], [1, 1], [1, 1]]
    said = jax.jit(policy.decide)(params, inputs, chosen, None)
    np.testing.assert_allclose(np.exp(said.log_p), [[0.2, 0.5], [0.8, 0.5], [0.8, 0.5]], rtol=1e-5)
    np.testing.assert_allclose(said.entropy[0], [0.500402, np.log(2)], rtol=1e-5)


def test_grouper_is_linear_in_values():
    weights = initial_weights(LAYOUT.grouper_shapes(), 4)
    values = np.random.default_rng(0).random((3, LAYOUT.op_columns)).astype(np.float32)
    kinds = np.array([0, 1, 1])
    joined = np.concatenate([weights["types"][kinds], values], axis=1)
    expected = joined @ weights["hidden"] @ weights["groups"]
    adds = grouper_scores(weights)
    summed = np.concatenate([np.eye(LAYOUT.types)[kinds], values], axis=1) @ adds
    np.testing.assert_allclose(summed, expected, rtol=1e-4, atol=1e-6)
