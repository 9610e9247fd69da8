"""Sampling from the planner's networks, and its updates by REINFORCE or PPO, each compiled once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from mcm_models.planner.networks import (
    Decision,
    Grouper,
    GroupInputs,
    LogitTable,
    Params,
    Placer,
    Trace,
)
from mcm_models.planner.settings import PlannerSettings

Array = jax.Array
GroupPolicy = nnx.GraphDef[Placer] | nnx.GraphDef[LogitTable]
"""The part of a policy that places groups, without weights, static for `jax.jit`."""


class Batch(NamedTuple):
    """K samples.

    Attributes:
        inputs: that devices were drawn from.
        chosen: `[K, M]`, devices.
        advantage: `[K, M]`, of each choice.
        trace: of the draw; None where the policy has none.
    """

    inputs: GroupInputs
    chosen: Array
    advantage: Array
    trace: Trace | None


class UpdateMetrics(NamedTuple):
    """Of the first gradient step.

    Attributes:
        entropy: mean entropy of a group's device, in nats.
        gradient: norm of the gradient before it is cut.
    """

    entropy: Array
    gradient: Array


def optimizer(settings: PlannerSettings) -> optax.GradientTransformation:
    """Adam behind a cut of the gradient's norm; its rate is multiplied in later."""
    return optax.chain(
        optax.clip_by_global_norm(settings.gradient_norm), optax.scale_by_adam(), optax.scale(-1.0)
    )


@partial(jax.jit, static_argnames=("definition",))
def scores_of_inputs(definition: nnx.GraphDef[Grouper], params: Params) -> Array:
    """`[T + F, M]`; see `Grouper.scores_of_inputs`."""
    return nnx.merge(definition, params).scores_of_inputs()


@partial(jax.jit, static_argnames=("definition",))
def sample_devices(
    definition: GroupPolicy, params: Params, inputs: GroupInputs, uniforms: Array
) -> tuple[Array, Trace | None]:
    """Devices `[K, M]`, and what an update goes on from; see `Placer.sample`."""
    return nnx.merge(definition, params).sample(inputs, uniforms)


@partial(
    jax.jit,
    static_argnames=("definitions", "settings"),
    donate_argnames=("params", "state"),
)
def update(
    definitions: tuple[Any, ...],
    settings: PlannerSettings,
    params: tuple[Params, ...],
    state: Any,
    batch: Batch,
    grouping: Array | None,
    rate: Array,
) -> tuple[tuple[Params, ...], Any, UpdateMetrics]:
    """All gradient steps on one batch.

    Args:
        definitions: of what places groups, and of the Grouper where there is one.
        settings: how it learns.
        params: weights of both.
        state: of the optimizer.
        batch: K samples, drawn with these weights.
        grouping: `[T + F, M]`, gradient of what is to grow, with respect to
            `Grouper.scores_of_inputs`; None without a Grouper.
        rate: learning rate.
    """

    def decide(params: tuple[Params, ...], trace: Trace | None) -> Decision:
        return nnx.merge(definitions[0], params[0])(batch.inputs, batch.chosen, trace)

    count = batch.chosen.shape[0]
    before = jax.lax.stop_gradient(decide(params, batch.trace).log_p) if settings.clip else None

    def loss_of(params: tuple[Params, ...], trace: Trace | None) -> tuple[Array, Array]:
        log_p, entropy = decide(params, trace)
        if before is None:
            gain = log_p * batch.advantage
        else:
            ratio = jnp.exp(log_p - before)
            kept = jnp.clip(ratio, 1.0 - settings.clip, 1.0 + settings.clip)
            gain = jnp.minimum(ratio * batch.advantage, kept * batch.advantage)
        loss = -(jnp.sum(gain) + settings.entropy * jnp.sum(entropy)) / count
        if grouping is not None:
            scores = nnx.merge(definitions[1], params[1]).scores_of_inputs()
            loss -= jnp.sum(scores * grouping)
        return loss, jnp.mean(entropy)

    adam = optimizer(settings)

    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], UpdateMetrics]:
        params, state = carry
        trace = batch.trace
        if settings.epochs > 1:
            placer = nnx.merge(definitions[0], params[0])
            trace = placer.replay(batch.inputs, batch.chosen)
        gradient, entropy = jax.grad(loss_of, has_aux=True)(params, trace)
        change, state = adam.update(gradient, state, params)
        params = optax.apply_updates(params, optax.tree_utils.tree_scale(rate, change))
        return (params, state), UpdateMetrics(entropy, optax.tree_utils.tree_norm(gradient))

    if settings.epochs == 1:
        (params, state), metrics = step((params, state), None)
        return params, state, metrics
    (params, state), history = jax.lax.scan(step, (params, state), length=settings.epochs)
    return params, state, UpdateMetrics(*(values[0] for values in history))
