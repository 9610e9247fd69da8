"""Gradient steps of all policies, by REINFORCE or PPO (Schulman et al. 2017).

Each policy has its own loss, with its network and the weights of its decisions. None has a value
network: advantages are normalised over rollouts of the same problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import optax

Array = jax.Array
ParamsT = TypeVar("ParamsT")


class StepMetrics(NamedTuple):
    """Of a gradient step.

    Attributes:
        loss: before it.
        figures: that the loss came with.
        gradient: norm of the gradient before it is cut.
    """

    loss: Array
    figures: Any
    gradient: Array


def adam(max_gradient: float, rate: float | Array) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015) behind a cut of the gradient's norm."""
    return optax.chain(optax.clip_by_global_norm(max_gradient), optax.adam(cast("float", rate)))


def gains(log_p: Array, before: Array | None, advantage: Any, clip: float) -> tuple[Array, Array]:
    """The objective of each decision, and where its ratio of probabilities is out of range.

    Args:
        log_p: logarithms of the probabilities of the decisions.
        before: the same by the policy that took them; None for REINFORCE, which has no ratio.
        advantage: of the decisions.
        clip: largest change of a ratio that earns anything.
    """
    if before is None:
        return log_p * advantage, jnp.zeros(log_p.shape, bool)
    ratio = jnp.exp(log_p - before)
    kept = jnp.clip(ratio, 1.0 - clip, 1.0 + clip)
    return jnp.minimum(ratio * advantage, kept * advantage), kept != ratio


def taken(log_p: Array, chosen: Any) -> Array:
    """Of the distributions on the last axis, the entries that were chosen."""
    return jnp.take_along_axis(log_p, chosen[..., None], axis=-1)[..., 0]


def gradient_steps(
    loss_of: Callable[[ParamsT, Any], tuple[Array, Any]],
    optimizer: optax.GradientTransformation,
    params: ParamsT,
    state: Any,
    steps: Any,
) -> tuple[ParamsT, Any, StepMetrics]:
    """Steps down a loss, one after the other.

    Args:
        loss_of: the loss of parameters in a step, and figures about it.
        optimizer: of the steps.
        params: any pytree.
        state: of the optimizer.
        steps: arrays with a row for each step, or the number of steps.

    Returns:
        New parameters and state, and metrics with a row for each step.
    """

    def step(carry: tuple[Any, Any], row: Any) -> tuple[tuple[Any, Any], StepMetrics]:
        params, state = carry
        (loss, figures), gradient = jax.value_and_grad(loss_of, has_aux=True)(params, row)
        change, state = optimizer.update(gradient, state, params)
        params = optax.apply_updates(params, change)
        metrics = StepMetrics(loss, figures, optax.tree_utils.tree_norm(gradient))
        return (params, state), metrics

    if isinstance(steps, int):
        (params, state), metrics = jax.lax.scan(step, (params, state), length=steps)
    else:
        (params, state), metrics = jax.lax.scan(step, (params, state), steps)
    return params, state, metrics
