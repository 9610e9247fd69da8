"""Episodes in all lanes, in step, and the transitions that come of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mcm_models.dqn.environment import Environment, Observation, State
from mcm_models.dqn.layout import QLayout, Weights, q_values
from mcm_models.dqn.replay import Transitions, pack
from mcm_models.dqn.settings import DqnSettings
from mcm_models.dqn.targets import cut_returns

Array = jax.Array


class Program(NamedTuple):
    """What a compilation depends on, beside shapes.

    Attributes:
        environment: what is learned.
        layout: of the network.
        settings: how.
        quickly: by an older and simpler part of XLA: compiled in half the time, and some 25 %
            slower after that.
    """

    environment: Environment[Any]
    layout: QLayout
    settings: DqnSettings
    quickly: bool = False


class Draws(NamedTuple):
    """Random numbers of N rounds of E lanes, T steps, U gradient steps and batches of B.

    Attributes:
        keys: `[N, E, 2]` uint32, of the instances.
        actions: `[N, T, E, 2]`, from 0 up to 1.
        batches: `[N, U, B]`, likewise.
    """

    keys: Any
    actions: Any
    batches: Any


class Transition(NamedTuple):
    """One step of all lanes; E lanes."""

    seen: Array
    choices: Array
    action: Array
    reward: Array
    done: Array
    alive: Array
    explored: Array


def weights_by_name(layout: QLayout, row: Array) -> Weights:
    """Weights out of one row."""
    weights: Weights = {}
    start = 0
    for name, shape in layout.shapes().items():
        end = start + math.prod(shape)
        weights[name] = row[start:end].reshape(shape)
        start = end
    return weights


def values_of(layout: QLayout, weights: Weights, seen: Observation) -> Array:
    """`[..., A]`, see `layout.q_values`."""
    return q_values(layout, weights, seen.candidates, seen.context, seen.mask, jnp)


def _choose(values: Array, mask: Array, uniform: Array, epsilon: Array) -> tuple[Array, Array]:
    """Epsilon-greedy `[E]`, and where the draw was not the greedy action.

    Args:
        values: `[E, A]`.
        mask: `[E, A]`.
        uniform: `[E, 2]`.
        epsilon: `[E]`.
    """
    greedy = jnp.argmax(values, axis=-1)
    # A product with a triangle: a cumulative sum compiles to far more code.
    ranks = mask.astype(jnp.float32) @ jnp.triu(jnp.ones((mask.shape[1],) * 2))
    wanted = jnp.floor(uniform[:, 1] * ranks[:, -1])
    drawn = jnp.argmax(ranks > wanted[:, None], axis=-1)
    action = jnp.where(uniform[:, 0] < epsilon, drawn, greedy)
    return action.astype(jnp.int32), action != greedy


def play(
    program: Program, params: Any, weights: Array, draws: Draws, epsilon: Array
) -> tuple[State, Transition]:
    """One episode in each lane: the last states, and the steps `[T, E]`."""
    environment, settings = program.environment, program.settings
    lanes = settings.lanes
    keys = jax.random.wrap_key_data(draws.keys)
    observe = jax.vmap(environment.observe, (0, None))
    step = jax.vmap(environment.step, (0, 0, None))
    per_lane = jnp.where(jnp.arange(lanes) < settings.greedy_lanes, 0.0, epsilon)
    named = weights_by_name(program.layout, weights)

    def move(carry: tuple[State, Array], uniform: Array) -> tuple[tuple[State, Array], Transition]:
        state, alive = carry
        seen = observe(state, params)
        values = values_of(program.layout, named, seen)
        action, explored = _choose(values, seen.mask, uniform, per_lane)
        moved, reward, over = step(state, action, params)

        def kept(new: Array, old: Array) -> Array:
            return jnp.where(alive.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        record = Transition(
            seen=pack(seen),
            choices=jnp.sum(seen.mask, axis=-1),
            action=action,
            reward=jnp.where(alive, reward, 0.0),
            done=alive & over,
            alive=alive,
            explored=explored & alive,
        )
        return (jax.tree.map(kept, moved, state), alive & ~over), record

    start = jax.vmap(environment.reset, (0, None))(keys, params)
    (state, _), steps = jax.lax.scan(move, (start, jnp.ones(lanes, bool)), draws.actions)
    return state, steps


def transitions_of(settings: DqnSettings, steps: Transition) -> tuple[Transitions, Array]:
    """What there is to learn from a round, `[T * E]`, and which of it is wanted."""
    horizon, lanes = steps.reward.shape
    if settings.returns == "one-step":
        cut = jnp.ones((horizon + 1, lanes), bool)
    else:
        cut = jnp.concatenate([steps.explored, jnp.ones((1, lanes), bool)])
    # At the horizon an episode ends whatever the environment says.
    done = steps.done.at[-1].set(steps.alive[-1])
    returns = cut_returns(steps.reward, done, cut, settings.gamma)
    wanted = steps.alive
    if settings.returns == "monte-carlo":
        wanted &= steps.choices > 1
        if settings.after_cut == "drop":
            wanted &= returns.discount == 0.0
    # What is seen after an end counts nothing.
    until = jnp.minimum(returns.until, horizon - 1)
    after = steps.seen[until, jnp.arange(lanes)[None, :]]
    made = Transitions(steps.seen, steps.action, returns.reward, returns.discount, after)

    def flat(part: Array) -> Array:
        return part.reshape(horizon * lanes, *part.shape[2:])

    return jax.tree.map(flat, made), flat(wanted)
