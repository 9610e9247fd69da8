"""What values are learned from: returns of episodes, and the double-DQN target."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array


class CutReturns(NamedTuple):
    """Returns of the steps of episodes, each up to a later step; T steps.

    Attributes:
        reward: `[T, ...]`, discounted rewards up to step `until`.
        discount: `[T, ...]`, what the value of the state at step `until` counts; 0 at an end.
        until: `[T, ...]` int32, from t + 1 to T.
    """

    reward: Array
    discount: Array
    until: Array


def cut_returns(reward: Array, done: Array, cut: Array, gamma: float) -> CutReturns:
    """Returns up to the end of the episode or the next step that is marked as a cut.

    Args:
        reward: `[T, ...]`, each column an episode.
        done: `[T, ...]` bool, steps that an episode ends with.
        cut: `[T + 1, ...]` bool, steps before which returns end; all for one-step returns,
            those of exploratory actions for Monte-Carlo ones. The last should be marked.
        gamma: discount.
    """
    steps = reward.shape[0]

    def back(
        later: CutReturns, step: tuple[Array, Array, Array, Array]
    ) -> tuple[CutReturns, CutReturns]:
        index, earned, over, cut_next = step
        ends = over | cut_next
        here = CutReturns(
            earned + jnp.where(ends, 0.0, gamma * later.reward),
            jnp.where(over, 0.0, jnp.where(cut_next, gamma, gamma * later.discount)),
            jnp.where(ends, index + 1, later.until),
        )
        return here, here

    zeros = jnp.zeros_like(reward[0])
    start = CutReturns(zeros, zeros, jnp.full(zeros.shape, steps, jnp.int32))
    walk = (jnp.arange(steps, dtype=jnp.int32), reward, done, cut[1:])
    return jax.lax.scan(back, start, walk, reverse=True)[1]


def double_target(
    reward: Array, discount: Array, online: Array, target: Array, double: bool
) -> Array:
    """`[B]`: reward plus discounted value of the best next action (van Hasselt et al. 2016).

    Args:
        reward: `[B]`.
        discount: `[B]`.
        online: `[B, A]`, values of next actions by the online network, which chooses.
        target: `[B, A]`, by the target network, which values.
        double: False for the plain target, in which the target network does both.
    """
    chosen = jnp.argmax(online if double else target, axis=-1)
    value = jnp.take_along_axis(target, chosen[:, None], axis=-1)[:, 0]
    return reward + discount * value


def huber(error: Array) -> Array:
    """Quadratic up to 1, linear beyond."""
    size = jnp.abs(error)
    return jnp.where(size <= 1.0, 0.5 * error * error, size - 0.5)
