"""Sampling from the planner's networks, and its updates by REINFORCE or PPO, each compiled once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from mcm_models.planner.networks import Decision, Grouper, GroupInputs, LogitTable, Params, Placer
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
    """

    inputs: GroupInputs
    chosen: Array
    advantage: Array


class Ops(NamedTuple):
    """What the Grouper reads, and the gradient that its scores get.

    Attributes:
        op_type: `[U]`.
        values: `[U, F]`.
        gradient: `[U, M]`, of what is to grow, with respect to scores.
    """

    op_type: Array
    values: Array
    gradient: Array


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
def group_probabilities(
    definition: nnx.GraphDef[Grouper],
    params: Params,
    op_type: Array,
    values: Array,
    noise: Array | None,
) -> tuple[Array, Array]:
    """Probabilities of groups `[U, M]`, and the mean entropy of a unit, in nats.

    Args:
        definition: of the Grouper.
        params: its weights.
        op_type: `[U]`.
        values: `[U, F]`.
        noise: `[U, M]`, times the root mean square of scores; None for none.
    """
    scores = nnx.merge(definition, params)(op_type, values)
    if noise is not None:
        scores += noise * jnp.sqrt(jnp.mean(scores * scores))
    log_p = jax.nn.log_softmax(scores, axis=-1)
    p = jnp.exp(log_p)
    return p, -jnp.mean(jnp.sum(p * log_p, axis=-1))


@partial(jax.jit, static_argnames=("definition",))
def sample_devices(
    definition: GroupPolicy, params: Params, inputs: GroupInputs, uniforms: Array
) -> Array:
    """Devices `[K, M]`; see `Placer.sample`."""
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
    ops: Ops | None,
    rate: Array,
) -> tuple[tuple[Params, ...], Any, UpdateMetrics]:
    """All gradient steps on one batch.

    Args:
        definitions: of what places groups, and of the Grouper where there is one.
        settings: how it learns.
        params: weights of both.
        state: of the optimizer.
        batch: K samples.
        ops: what the Grouper learns; None without one, or in epochs after the first.
        rate: learning rate.
    """

    def decide(params: tuple[Params, ...]) -> Decision:
        return nnx.merge(definitions[0], params[0])(batch.inputs, batch.chosen)

    count = batch.chosen.shape[0]
    before = jax.lax.stop_gradient(decide(params).log_p) if settings.clip else None

    def loss_of(params: tuple[Params, ...]) -> tuple[Array, Array]:
        log_p, entropy = decide(params)
        if before is None:
            gain = log_p * batch.advantage
        else:
            ratio = jnp.exp(log_p - before)
            kept = jnp.clip(ratio, 1.0 - settings.clip, 1.0 + settings.clip)
            gain = jnp.minimum(ratio * batch.advantage, kept * batch.advantage)
        loss = -(jnp.sum(gain) + settings.entropy * jnp.sum(entropy)) / count
        if ops is not None:
            scores = nnx.merge(definitions[1], params[1])(ops.op_type, ops.values)
            loss -= jnp.sum(scores * ops.gradient)
        return loss, jnp.mean(entropy)

    adam = optimizer(settings)

    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], UpdateMetrics]:
        params, state = carry
        gradient, entropy = jax.grad(loss_of, has_aux=True)(params)
        change, state = adam.update(gradient, state, params)
        params = optax.apply_updates(params, optax.tree_utils.tree_scale(rate, change))
        return (params, state), UpdateMetrics(entropy, optax.tree_utils.tree_norm(gradient))

    if settings.epochs == 1:
        (params, state), metrics = step((params, state), None)
        return params, state, metrics
    (params, state), history = jax.lax.scan(step, (params, state), length=settings.epochs)
    return params, state, UpdateMetrics(*(values[0] for values in history))
