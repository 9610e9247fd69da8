"""The Grouper and the Placer in Flax.

The Grouper is feed-forward, with a softmax over groups for each op. The Placer is a sequence of
LSTM steps: a bidirectional encoder reads the groups, and a decoder with attention over their states
gives one device in each of its steps, whose embedding it reads in the next (Mirhoseini et al.
2018, section 3). What the attention computes follows the authors' controller: additive, over
states that one matrix transforms, and read beside the decoder's own state by the last layer.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from mcm_models.planner.layout import PlannerLayout, Weights

Array = jax.Array
Params: TypeAlias = "nnx.State[Any, Any]"
"""Weights as the pytree that Flax splits off a module."""


class GroupInputs(NamedTuple):
    """What decisions on groups are made from.

    Attributes:
        features: `[K, M, F]`, or `[1, M, F]` where all samples share their groups.
        prior: `[M, D]`, added to scores.
        noise: `[K, M, D]`, added to scores times their root mean square, which gets no gradient (a
            choice).
    """

    features: Array
    prior: Array
    noise: Array


class Decision(NamedTuple):
    """What the Placer says of devices for given groups.

    Attributes:
        log_p: `[K, M]`, log-probability of the chosen devices.
        entropy: `[K, M]`, of each choice, in nats.
    """

    log_p: Array
    entropy: Array


class Grouper(nnx.Module):
    """From features of ops to scores of groups; linear, as in the controller."""

    def __init__(self, layout: PlannerLayout) -> None:
        shapes = layout.grouper_shapes()
        self.types = _zeros(shapes["types"])
        self.hidden = _zeros(shapes["hidden"])
        self.groups = _zeros(shapes["groups"])

    def __call__(self, op_type: Array, values: Array) -> Array:
        """`[U, M]`, scores."""
        joined = jnp.concatenate([self.types[...][op_type], values], axis=-1)
        return joined @ self.hidden[...] @ self.groups[...]


class Placer(nnx.Module):
    """From features of groups to devices, one group after another."""

    def __init__(self, layout: PlannerLayout, tanh_constant: float) -> None:
        self.width = layout.hidden
        self.tanh_constant = tanh_constant
        shapes = layout.placer_shapes()
        self.forward_in = _zeros(shapes["forward_in"])
        self.forward_own = _zeros(shapes["forward_own"])
        self.backward_in = _zeros(shapes["backward_in"])
        self.backward_own = _zeros(shapes["backward_own"])
        self.encoder_forget = _zeros(shapes["encoder_forget"])
        self.memory = _zeros(shapes["memory"])
        self.query = _zeros(shapes["query"])
        self.attention = _zeros(shapes["attention"])
        self.first = _zeros(shapes["first"])
        self.devices = _zeros(shapes["devices"])
        self.decoder_in = _zeros(shapes["decoder_in"])
        self.decoder_own = _zeros(shapes["decoder_own"])
        self.decoder_forget = _zeros(shapes["decoder_forget"])
        self.logits = _zeros(shapes["logits"])

    def sample(self, inputs: GroupInputs, uniforms: Array) -> Array:
        """Draws devices `[K, M]` by uniform numbers `[K, M]` from 0 up to 1."""
        count = uniforms.shape[0]
        memory, state = self._encode(inputs.features)
        shape = (count, self.width)
        state = (jnp.broadcast_to(state[0], shape), jnp.broadcast_to(state[1], shape))
        first = jnp.broadcast_to(self.first[...] @ self.decoder_in[...], (count, 4 * self.width))
        known = self.devices[...] @ self.decoder_in[...]

        def step(carry: Any, now: tuple[Array, Array, Array]) -> tuple[Any, Array]:
            state, given = carry
            state = _cell(given, state, self.decoder_own[...], self.decoder_forget[...])
            uniform, prior, noise = now
            scores = _scored(self._scores(state[1][:, None], memory)[:, 0], prior, noise)
            device = _drawn(scores, uniform)
            return (state, known[device]), device

        order = (uniforms.T, inputs.prior, inputs.noise.transpose(1, 0, 2))
        _, chosen = jax.lax.scan(step, (state, first), order)
        return chosen.T

    def __call__(self, inputs: GroupInputs, chosen: Array) -> Decision:
        """What is said of the devices `[K, M]` that were drawn from the same inputs."""
        count = chosen.shape[0]
        memory, state = self._encode(inputs.features)
        shape = (count, self.width)
        state = (jnp.broadcast_to(state[0], shape), jnp.broadcast_to(state[1], shape))
        known = jnp.concatenate([self.first[...], self.devices[...]]) @ self.decoder_in[...]
        before = jnp.concatenate([jnp.zeros((count, 1), chosen.dtype), chosen[:, :-1] + 1], axis=1)

        def step(state: Any, given: Array) -> tuple[Any, Array]:
            state = _cell(given, state, self.decoder_own[...], self.decoder_forget[...])
            return state, state[1]

        _, states = jax.lax.scan(step, state, known[before.T])
        shared = memory.shape[0] == 1

        # Attention of one sample at a time, computed again on the way back: its tables have
        # M * M * hidden numbers.
        @jax.checkpoint
        def scores_of(own: Array, read: Array) -> Array:
            return self._scores(own[None], read[None])[0]

        own = states.transpose(1, 0, 2)

        def scores_at(k: Array) -> Array:
            return scores_of(own[k], memory[0] if shared else memory[k])

        scores = jax.lax.map(scores_at, jnp.arange(count))
        return _decision(_scored(scores, inputs.prior, inputs.noise), chosen)

    def _encode(self, groups: Array) -> tuple[Array, tuple[Array, Array]]:
        """Transformed states `[K, M, hidden]`, and the last state of both directions."""
        half = (groups.shape[0], self.width // 2)
        start = (jnp.zeros(half), jnp.zeros(half))

        def read(inner: Array, own: Array) -> tuple[Any, Array]:
            def step(state: Any, given: Array) -> tuple[Any, Array]:
                state = _cell(given, state, own, self.encoder_forget[...])
                return state, state[1]

            return jax.lax.scan(step, start, inner)

        there = (groups @ self.forward_in[...]).transpose(1, 0, 2)
        back = (groups[:, ::-1] @ self.backward_in[...]).transpose(1, 0, 2)
        (cell, last), states = read(there, self.forward_own[...])
        (other_cell, other_last), other_states = read(back, self.backward_own[...])
        # At the same group; the controller joins what both directions saw in the same step.
        joined = jnp.concatenate([states, other_states[::-1]], axis=-1).transpose(1, 0, 2)
        state = (
            jnp.concatenate([cell, other_cell], axis=-1),
            jnp.concatenate([last, other_last], axis=-1),
        )
        return joined @ self.memory[...], state

    def _scores(self, own: Array, memory: Array) -> Array:
        """`[K, S, D]`, of the decoder's states `[K, S, hidden]` with memory `[K, M, hidden]`."""
        query = own @ self.query[...]
        matched = jnp.tanh(query[:, :, None] + memory[:, None]) @ self.attention[...]
        read = jax.nn.softmax(matched[..., 0], axis=-1) @ memory
        scores = jnp.concatenate([own, read], axis=-1) @ self.logits[...]
        if self.tanh_constant:
            scores = jnp.tanh(scores) * self.tanh_constant
        return scores


class LogitTable(nnx.Module):
    """The control: scores of devices for each group, without a network."""

    def __init__(self, groups: int, devices: int) -> None:
        self.table = _zeros((groups, devices))

    def sample(self, inputs: GroupInputs, uniforms: Array) -> Array:
        """As `Placer.sample`; the features of groups are not read."""
        return _drawn(_scored(self.table[...], inputs.prior, inputs.noise), uniforms)

    def __call__(self, inputs: GroupInputs, chosen: Array) -> Decision:
        """As `Placer.__call__`."""
        return _decision(_scored(self.table[...], inputs.prior, inputs.noise), chosen)


def params_of(weights: Weights) -> Params:
    """Weights by name as the pytree that `nnx.merge` takes."""
    return nnx.from_flat_state(
        [((name,), nnx.Param(jnp.asarray(array))) for name, array in weights.items()]
    )


def weights_of(params: Params) -> Weights:
    """The inverse of `params_of`."""
    flat = {str(path[0]): leaf for path, leaf in nnx.to_flat_state(params)}
    return {name: np.asarray(flat[name][...]) for name in sorted(flat)}


def _zeros(shape: tuple[int, ...]) -> nnx.Param[Array]:
    """A parameter whose values come later, from `params_of`."""
    return nnx.Param(jnp.zeros(shape))


def _scored(scores: Array, prior: Array, noise: Array) -> Array:
    scale = jnp.sqrt(jnp.mean(scores * scores, axis=-1, keepdims=True))
    return scores + prior + noise * jax.lax.stop_gradient(scale)


def _drawn(scores: Array, uniforms: Array) -> Array:
    sums = jnp.cumsum(jax.nn.softmax(scores, axis=-1), axis=-1)
    return jnp.sum(uniforms[..., None] >= sums[..., :-1], axis=-1)


def _decision(scores: Array, chosen: Array) -> Decision:
    log_p = jax.nn.log_softmax(scores, axis=-1)
    taken = jnp.take_along_axis(log_p, chosen[..., None], axis=-1)[..., 0]
    return Decision(taken, -jnp.sum(jnp.exp(log_p) * log_p, axis=-1))


def _cell(
    given: Array, state: tuple[Array, Array], own: Array, forget: Array
) -> tuple[Array, Array]:
    """One step of an LSTM; `given` is its input times its matrix."""
    cell, last = state
    enter, keep, leave, value = jnp.split(given + last @ own, 4, axis=-1)
    cell = jax.nn.sigmoid(enter) * jnp.tanh(value) + jax.nn.sigmoid(keep + forget) * cell
    return cell, jax.nn.sigmoid(leave) * jnp.tanh(cell)
