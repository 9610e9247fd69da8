"""Sampling from the planner's networks, and its updates by REINFORCE or PPO, each compiled once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hier_planner import networks
from hier_planner.planner_settings import PlannerSettings
from mcm_models.ppo import adam, gains, gradient_steps

Array = jax.Array
GroupPolicy = networks.Placer | networks.LogitTable
"""The part of a policy that places groups."""


class Batch(NamedTuple):
    """K samples.

    Attributes:
        inputs: that devices were drawn from.
        chosen: `[K, M]`, devices.
        advantage: `[K, M]`, of each choice.
        trace: of the draw; None where the policy has none.
    """

    inputs: networks.GroupInputs
    chosen: Array
    advantage: Array
    trace: networks.Trace | None


class UpdateMetrics(NamedTuple):
    """Of the first gradient step.

    Attributes:
        entropy: mean entropy of a group's device, in nats.
        gradient: norm of the gradient before it is cut.
    """

    entropy: Array
    gradient: Array


@partial(jax.jit, static_argnames=("placer",))
def sample_devices(
    placer: GroupPolicy, params: networks.Params, inputs: networks.GroupInputs, uniforms: Array
) -> tuple[Array, networks.Trace | None]:
    """Devices `[K, M]`, and what an update goes on from; see `Placer.sample`."""
    return placer.sample(params, inputs, uniforms)


@partial(jax.jit, static_argnames=("placer", "settings"), donate_argnames=("params", "state"))
def update(
    placer: Any,
    settings: PlannerSettings,
    params: tuple[networks.Params, ...],
    state: Any,
    batch: Batch,
    grouping: Array | None,
    rate: Array,
) -> tuple[tuple[networks.Params, ...], Any, UpdateMetrics]:
    """All gradient steps on one batch.

    Args:
        placer: a `GroupPolicy`.
        settings: how it learns.
        params: weights of what places groups, and of the Grouper where there is one.
        state: of the optimizer.
        batch: K samples, drawn with these weights.
        grouping: `[T + F, M]`, gradient of what is to grow, with respect to
            `grouper_scores`; None without a Grouper.
        rate: learning rate.
    """

    def decided(
        params: tuple[networks.Params, ...], trace: networks.Trace | None
    ) -> networks.Decision:
        return placer.decide(params[0], batch.inputs, batch.chosen, trace)

    count = batch.chosen.shape[0]
    before = jax.lax.stop_gradient(decided(params, batch.trace).log_p) if settings.clip else None

    def loss_of(params: tuple[networks.Params, ...], _: Any) -> tuple[Array, Array]:
        trace = batch.trace
        if settings.epochs > 1:
            trace = placer.replay(jax.lax.stop_gradient(params[0]), batch.inputs, batch.chosen)
        log_p, entropy = decided(params, trace)
        gain, _ = gains(log_p, before, batch.advantage, settings.clip)
        loss = -(jnp.sum(gain) + settings.entropy * jnp.sum(entropy)) / count
        if grouping is not None:
            loss -= jnp.sum(networks.grouper_scores(params[1]) * grouping)
        return loss, jnp.mean(entropy)

    optimizer = adam(settings.gradient_norm, rate)
    params, state, metrics = gradient_steps(loss_of, optimizer, params, state, settings.epochs)
    return params, state, UpdateMetrics(metrics.figures[0], metrics.gradient[0])
