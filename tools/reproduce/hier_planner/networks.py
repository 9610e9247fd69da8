"""The Grouper and the Placer, in JAX; weights are arrays by name.

The Grouper is feed-forward, with a softmax over groups for each op. The Placer is a sequence of
LSTM steps: a bidirectional encoder reads the groups, and a decoder with attention over their states
gives one device in each of its steps, whose embedding it reads in the next (Mirhoseini et al.
2018, section 3). What the attention computes follows the authors' controller: additive, over
states that one matrix transforms, and read beside the decoder's own state by the last layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hier_planner import recurrence
from hier_planner.recurrence import all_shares, read_by, shares_of

Array = jax.Array
Params = Mapping[str, Array]
"""Weights by name."""


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


class Trace(NamedTuple):
    """What the Placer computed for K samples, which gradients go on from.

    Attributes:
        there: of the encoder, in the order of groups.
        back: of the encoder, from the last group to the first.
        decoder: of the decoder.
        shares: `[K, M, M]`, how much each step of the decoder reads of each state of the encoder.
    """

    there: recurrence.Steps
    back: recurrence.Steps
    decoder: recurrence.Steps
    shares: Array


@jax.jit
def grouper_scores(w: Params) -> Array:
    """`[T + F, M]`, what each type and a one of each value adds to scores of groups.

    The Grouper is linear, as in the controller: scores are sums of these, and a gradient with
    respect to these is one with respect to its weights.
    """
    width = w["types"].shape[1]
    hidden = w["hidden"]
    return jnp.concatenate([w["types"] @ hidden[:width], hidden[width:]]) @ w["groups"]


@dataclass(frozen=True)
class Placer:
    """From features of groups to devices, one group after another; static for `jax.jit`.

    Attributes:
        hidden: of `PlannerLayout`.
        tanh_constant: of `PlannerSettings`.
    """

    hidden: int
    tanh_constant: float

    def sample(self, w: Params, inputs: GroupInputs, uniforms: Array) -> tuple[Array, Trace]:
        """Draws devices `[K, M]` by uniform numbers `[K, M]` from 0 up to 1."""
        count = uniforms.shape[0]
        there, back = self._read_groups(w, inputs.features)
        memory, state = self._encoded(w, there, back)
        known = self._signals(w)
        first = jnp.broadcast_to(known[0], (count, known.shape[1]))

        def step(carry: Any, now: tuple[Array, Array, Array]) -> tuple[Any, Any]:
            state, given = carry
            state, did = recurrence.lstm_step(given, state, w["decoder_own"], w["decoder_forget"])
            uniform, prior, noise = now
            own = state[1][:, None]
            shares = shares_of(own @ w["query"], memory, w["attention"])
            scores = _scored(self._scores(w, own, shares @ memory)[:, 0], prior, noise)
            device = _drawn(scores, uniform)
            return (state, known[device + 1]), (device, did, shares[:, 0])

        order = (uniforms.T, inputs.prior, inputs.noise.transpose(1, 0, 2))
        start = (_for_samples(state, count), first)
        _, (chosen, steps, shares) = jax.lax.scan(step, start, order)
        return chosen.T, Trace(there, back, recurrence.Steps(*steps), shares.transpose(1, 0, 2))

    def replay(self, w: Params, inputs: GroupInputs, chosen: Array) -> Trace:
        """What `sample` would have computed where it had drawn devices `[K, M]`."""
        count = chosen.shape[0]
        there, back = self._read_groups(w, inputs.features)
        memory, state = self._encoded(w, there, back)
        given = self._signals(w)[_before(chosen).T]
        state = _for_samples(state, count)
        decoder = recurrence.run_lstm(given, state, w["decoder_own"], w["decoder_forget"])
        query = decoder.states.transpose(1, 0, 2) @ w["query"]
        return Trace(there, back, decoder, all_shares(query, memory, w["attention"]))

    def decide(self, w: Params, inputs: GroupInputs, chosen: Array, trace: Trace) -> Decision:
        """What is said of the devices `[K, M]` that were drawn from the same inputs.

        Args:
            w: weights.
            inputs: of the decisions.
            chosen: the devices.
            trace: that `sample` or `replay` gave for these devices with these weights; the
                gradient with respect to weights is as if it had been made here.
        """
        groups, decoder = inputs.features, trace.decoder
        start = _no_state(groups, self.hidden // 2)
        forget = w["encoder_forget"]
        given = _in_order(groups) @ w["forward_in"]
        there = recurrence.lstm_outputs(given, start, w["forward_own"], forget, trace.there)
        given = _in_order(groups)[::-1] @ w["backward_in"]
        back = recurrence.lstm_outputs(given, start, w["backward_own"], forget, trace.back)
        memory, state = self._joined(w, there, back)
        state = _for_samples(state, chosen.shape[0])
        given = self._signals(w)[_before(chosen).T]
        own, forget = w["decoder_own"], w["decoder_forget"]
        states = recurrence.lstm_outputs(given, state, own, forget, decoder)[0].transpose(1, 0, 2)
        query = states @ w["query"]
        read = read_by(trace.shares, query, memory, w["attention"])
        scores = self._scores(w, states, read)
        return _decision(_scored(scores, inputs.prior, inputs.noise), chosen)

    def _read_groups(self, w: Params, groups: Array) -> tuple[recurrence.Steps, recurrence.Steps]:
        """What both directions of the encoder do."""
        start = _no_state(groups, self.hidden // 2)
        ordered, forget = _in_order(groups), w["encoder_forget"]
        return (
            recurrence.run_lstm(ordered @ w["forward_in"], start, w["forward_own"], forget),
            recurrence.run_lstm(ordered[::-1] @ w["backward_in"], start, w["backward_own"], forget),
        )

    def _encoded(
        self, w: Params, there: recurrence.Steps, back: recurrence.Steps
    ) -> tuple[Array, recurrence.CellState]:
        return self._joined(w, (there.states, there.cells[-1]), (back.states, back.cells[-1]))

    def _joined(
        self, w: Params, there: tuple[Array, Array], back: tuple[Array, Array]
    ) -> tuple[Array, recurrence.CellState]:
        """Transformed states `[K, M, hidden]`, and the last state of both directions."""
        # At the same group; the controller joins what both directions saw in the same step.
        joined = jnp.concatenate([there[0], back[0][::-1]], axis=-1).transpose(1, 0, 2)
        state = (
            jnp.concatenate([there[1], back[1]], axis=-1),
            jnp.concatenate([there[0][-1], back[0][-1]], axis=-1),
        )
        return joined @ w["memory"], state

    def _signals(self, w: Params) -> Array:
        """`[1 + D, 4 hidden]`, what the decoder reads first and after each device."""
        return jnp.concatenate([w["first"], w["devices"]]) @ w["decoder_in"]

    def _scores(self, w: Params, own: Array, read: Array) -> Array:
        """`[K, S, D]`, of the decoder's states `[K, S, hidden]` and what they read of memory."""
        scores = jnp.concatenate([own, read], axis=-1) @ w["logits"]
        if self.tanh_constant:
            scores = jnp.tanh(scores) * self.tanh_constant
        return scores


@dataclass(frozen=True)
class LogitTable:
    """The control: scores of devices for each group, without a network."""

    def sample(self, w: Params, inputs: GroupInputs, uniforms: Array) -> tuple[Array, None]:
        """As `Placer.sample`; the features of groups are not read, and there is no trace."""
        return _drawn(_scored(w["table"], inputs.prior, inputs.noise), uniforms), None

    def replay(self, w: Params, inputs: GroupInputs, chosen: Array) -> None:
        """As `Placer.replay`."""

    def decide(self, w: Params, inputs: GroupInputs, chosen: Array, trace: None) -> Decision:
        """As `Placer.decide`."""
        return _decision(_scored(w["table"], inputs.prior, inputs.noise), chosen)


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


def _in_order(groups: Array) -> Array:
    """`[M, K, F]`: what scans go over comes first."""
    return groups.transpose(1, 0, 2)


def _no_state(groups: Array, width: int) -> recurrence.CellState:
    nothing = jnp.zeros((groups.shape[0], width))
    return nothing, nothing


def _for_samples(state: recurrence.CellState, count: int) -> recurrence.CellState:
    """Of each sample, where all have the same groups, too."""
    shape = (count, state[0].shape[1])
    return jnp.broadcast_to(state[0], shape), jnp.broadcast_to(state[1], shape)


def _before(chosen: Array) -> Array:
    """`[K, M]`, which row of the decoder's signals it reads in each step."""
    first = jnp.zeros((chosen.shape[0], 1), chosen.dtype)
    return jnp.concatenate([first, chosen[:, :-1] + 1], axis=1)
