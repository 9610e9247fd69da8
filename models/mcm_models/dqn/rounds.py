"""A round of deep Q-learning: one episode in each lane, then gradient steps; many in one scan."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from mcm_models.dqn.environment import State
from mcm_models.dqn.episodes import Draws, Program, play, transitions_of, values_of, weights_by_name
from mcm_models.dqn.replay import (
    Replay,
    draw,
    importance,
    recall,
    remember,
    reweigh,
    unpack,
)
from mcm_models.dqn.settings import DqnSettings
from mcm_models.dqn.targets import double_target, huber

Array = jax.Array

_QUICK: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}


class Memory(NamedTuple):
    """All that changes while learning.

    Attributes:
        weights: of the online network, all in one row: one array to step is quicker to compile.
        target: of the target network, likewise.
        adam: state of the optimizer.
        replay: transitions.
        iteration: gradient steps so far.
        most: gradient steps in all, which the learning rate falls over.
        best: state with the best score of all that episodes ended in; zeros while `best_score` is
            minus infinity.
        best_score: its score.
    """

    weights: Array
    target: Array
    adam: Any
    replay: Replay
    iteration: Array
    most: Array
    best: State
    best_score: Array


class Progress(NamedTuple):
    """What happened, per round; N rounds.

    Attributes:
        score: `[N]`, mean score of the lanes' last states.
        greedy_score: `[N]`, of the greedy lanes; of all lanes where none is greedy.
        best_score: `[N]`, best so far.
        reward: `[N]`, mean sum of rewards of an episode.
        steps: `[N]`, mean steps of an episode.
        loss: `[N]`, mean over the gradient steps.
        epsilon: `[N]`, share of random actions.
    """

    score: Any
    greedy_score: Any
    best_score: Any
    reward: Any
    steps: Any
    loss: Any
    epsilon: Any


def optimizer(settings: DqnSettings) -> optax.GradientTransformation:
    """Adam for a step of size 1, which `_rate` scales."""
    return optax.chain(optax.clip_by_global_norm(settings.max_gradient), optax.adam(1.0))


def _rate(settings: DqnSettings, memory: Memory) -> Array:
    share = jnp.minimum(memory.iteration / memory.most, 1.0)
    return settings.learning_rate * (1.0 + share * (settings.final_rate - 1.0))


def _epsilon(settings: DqnSettings, iteration: Array) -> Array:
    share = jnp.minimum(iteration / settings.epsilon_iterations, 1.0)
    return settings.first_epsilon + share * (settings.last_epsilon - settings.first_epsilon)


def _learn(program: Program, memory: Memory, uniform: Array) -> tuple[Memory, Array]:
    """One gradient step."""
    layout, settings = program.layout, program.settings
    replay = memory.replay
    spots = draw(replay.weight, uniform)
    batch = recall(replay, spots)
    target_weights = weights_by_name(layout, memory.target)
    valued = values_of(layout, target_weights, unpack(batch.after, layout))
    # Before and after in one product: half the code to compile.
    both = unpack(jnp.concatenate([batch.before, batch.after]), layout)
    correction = importance(replay.weight, spots, settings.beta)

    def loss_of(weights: Array) -> tuple[Array, Array]:
        values, online = jnp.split(values_of(layout, weights_by_name(layout, weights), both), 2)
        online = jax.lax.stop_gradient(online)
        target = double_target(batch.reward, batch.discount, online, valued, settings.double)
        error = jnp.take_along_axis(values, batch.action[:, None], axis=-1)[:, 0] - target
        return jnp.mean(correction * huber(error)), error

    (loss, error), gradient = jax.value_and_grad(loss_of, has_aux=True)(memory.weights)
    step, state = optimizer(settings).update(gradient, memory.adam, memory.weights)
    weights: Array = memory.weights + _rate(settings, memory) * cast("Array", step)
    iteration = memory.iteration + 1
    sync = iteration % settings.sync_every == 0
    return memory._replace(
        weights=weights,
        target=jnp.where(sync, weights, memory.target),
        adam=state,
        replay=reweigh(replay, spots, error, settings.alpha, settings.min_priority),
        iteration=iteration,
    ), loss


def _round(program: Program, params: Any, memory: Memory, draws: Draws) -> tuple[Memory, Progress]:
    settings = program.settings
    epsilon = _epsilon(settings, memory.iteration)
    state, steps = play(program, params, memory.weights, draws, epsilon)
    score = jax.vmap(program.environment.score, (0, None))(state, params)
    top = jnp.argmax(score)
    better = score[top] > memory.best_score

    def kept(new: Array, old: Array) -> Array:
        return jnp.where(better, new[top], old)

    made, wanted = transitions_of(settings, steps)
    memory = memory._replace(
        best=jax.tree.map(kept, state, memory.best),
        best_score=jnp.maximum(memory.best_score, score[top]),
        replay=remember(memory.replay, made, wanted),
    )

    def learn(memory: Memory, uniform: Array) -> tuple[Memory, Array]:
        return _learn(program, memory, uniform)

    memory, losses = jax.lax.scan(learn, memory, draws.batches)
    progress = Progress(
        score=jnp.mean(score),
        greedy_score=jnp.mean(score[: settings.greedy_lanes or settings.lanes]),
        best_score=memory.best_score,
        reward=jnp.mean(jnp.sum(steps.reward, axis=0)),
        steps=jnp.mean(jnp.sum(steps.alive, axis=0, dtype=jnp.float32)),
        loss=jnp.mean(losses),
        epsilon=epsilon,
    )
    return memory, progress


def _advance(
    program: Program, params: Any, memory: Memory, draws: Draws
) -> tuple[Memory, Progress]:
    def one(memory: Memory, draws: Draws) -> tuple[Memory, Progress]:
        return _round(program, params, memory, draws)

    return jax.lax.scan(one, memory, draws)


@cache
def compiled(quickly: bool) -> Callable[..., tuple[Memory, Progress]]:
    """All rounds of some draws, `(program, params, memory, draws)`; see `Program.quickly`."""
    options = _QUICK if quickly and _is_known(_QUICK) else None
    return jax.jit(
        _advance,
        static_argnames=("program",),
        donate_argnames=("memory",),
        compiler_options=options,
    )


def _is_known(options: dict[str, Any]) -> bool:
    """Whether this version of XLA has these options."""
    try:
        jax.jit(jnp.negative, compiler_options=options).lower(jnp.float32(0.0)).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
