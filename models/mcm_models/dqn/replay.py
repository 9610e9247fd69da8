"""Prioritized replay (Schaul et al. 2016) as arrays on the device."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mcm_models.dqn.environment import Observation
from mcm_models.dqn.layout import QLayout

Array = jax.Array

TINY = 1e-30
"""Keeps an empty replay from dividing by zero."""

BLOCK = 64
"""Numbers that are summed in one row of a product."""


class Transitions(NamedTuple):
    """Steps to learn from; N of them.

    Attributes:
        before: `[N, W]`, what was seen, as `pack` makes it.
        action: `[N]` int32, what was done.
        reward: `[N]`, sum of discounted rewards until `after`.
        discount: `[N]`, what the value of `after` counts; 0 where the episode ended.
        after: `[N, W]`, what was seen then.
    """

    before: Array
    action: Array
    reward: Array
    discount: Array
    after: Array


class Replay(NamedTuple):
    """A ring of transitions; R of them.

    Attributes:
        rows: `[R, 2 W + 3]`, each transition as one row: one array to write and read is several
            times quicker to compile than one for each part.
        weight: `[R]`, priorities to the power alpha; 0 where nothing has been written yet.
        place: where the next transition goes.
        largest: the largest weight so far, which new transitions get.
    """

    rows: Array
    weight: Array
    place: Array
    largest: Array


def pack(seen: Observation) -> Array:
    """`[..., W]`: an observation as one row, W = A F + G + A."""
    lead = seen.mask.shape[:-1]
    flat = seen.candidates.reshape(*lead, -1)
    return jnp.concatenate([flat, seen.context, seen.mask.astype(jnp.float32)], axis=-1)


def unpack(rows: Array, layout: QLayout) -> Observation:
    """The inverse of `pack`."""
    actions, features = layout.actions, layout.features
    ends = actions * features, actions * features + layout.context
    candidates = rows[..., : ends[0]].reshape(*rows.shape[:-1], actions, features)
    return Observation(candidates, rows[..., ends[0] : ends[1]], rows[..., ends[1] :] > 0.5)


def empty_replay(capacity: int, width: int) -> Replay:
    """A replay without transitions.

    Args:
        capacity: R.
        width: W.
    """
    rows = jnp.zeros((capacity, 2 * width + 3), jnp.float32)
    return Replay(rows, jnp.zeros(capacity, jnp.float32), jnp.int32(0), jnp.float32(1.0))


def remember(replay: Replay, new: Transitions, wanted: Array) -> Replay:
    """Writes transitions over the oldest ones.

    Args:
        replay: what is remembered.
        new: N transitions, at most as many as it holds.
        wanted: `[N]` bool, those to write.
    """
    capacity = replay.weight.shape[0]
    rank = cumulative(wanted.astype(jnp.float32)).astype(jnp.int32)
    # Out of range for those that are not wanted, which `drop` leaves out.
    spots = jnp.where(wanted, (replay.place + rank - 1) % capacity, capacity)
    numbers = jnp.stack([new.action.astype(jnp.float32), new.reward, new.discount], axis=-1)
    rows = jnp.concatenate([new.before, new.after, numbers], axis=-1)
    return Replay(
        replay.rows.at[spots].set(rows, mode="drop"),
        replay.weight.at[spots].set(replay.largest, mode="drop"),
        (replay.place + rank[-1]) % capacity,
        replay.largest,
    )


def recall(replay: Replay, spots: Array) -> Transitions:
    """The transitions at some places."""
    rows = replay.rows[spots]
    width = (rows.shape[-1] - 3) // 2
    return Transitions(
        before=rows[:, :width],
        action=rows[:, -3].astype(jnp.int32),
        reward=rows[:, -2],
        discount=rows[:, -1],
        after=rows[:, width : 2 * width],
    )


def cumulative(values: Array) -> Array:
    """Cumulative sums `[N]`, by products with triangles.

    `jnp.cumsum` compiles to a tree of windows, which took a quarter of all compile time.
    """
    count = values.shape[0]
    rows = jnp.pad(values, (0, -count % BLOCK)).reshape(-1, BLOCK)
    within = rows @ jnp.triu(jnp.ones((BLOCK, BLOCK), values.dtype))
    before = within[:, -1] @ jnp.triu(jnp.ones((len(rows), len(rows)), values.dtype), 1)
    return (within + before[:, None]).reshape(-1)[:count]


def draw(weight: Array, uniform: Array) -> Array:
    """Places of transitions, each as likely as its weight, by the cumulative sum.

    Stratified: the k-th of B draws falls into the k-th of B equal parts of the total weight.

    Args:
        weight: `[R]`, not negative.
        uniform: `[B]`, from 0 up to 1.
    """
    count = uniform.shape[0]
    total = cumulative(weight)
    aim = (jnp.arange(count, dtype=jnp.float32) + uniform) / count * total[-1]
    spots = jnp.sum(total[None, :] <= aim[:, None], axis=-1, dtype=jnp.int32)
    # Rounding may aim at the very end, past which the last place that has any weight lies.
    return jnp.minimum(spots, jnp.sum(total < total[-1], dtype=jnp.int32))


def importance(weight: Array, spots: Array, beta: float) -> Array:
    """`[B]`, weights that correct for the draw: `(N p)^-beta` over their largest in the batch."""
    count = jnp.sum(weight > 0)
    chance = weight[spots] / jnp.maximum(jnp.sum(weight), TINY)
    correction = jnp.maximum(count * chance, TINY) ** -beta
    return correction / jnp.max(correction)


def reweigh(replay: Replay, spots: Array, error: Array, alpha: float, least: float) -> Replay:
    """Priorities of transitions that have just been learned from.

    Args:
        replay: what is remembered.
        spots: `[B]`, their places.
        error: `[B]`, difference between value and target.
        alpha: power.
        least: added to the errors' size.
    """
    new = (jnp.abs(error) + least) ** alpha
    largest = jnp.maximum(replay.largest, jnp.max(new))
    return replay._replace(weight=replay.weight.at[spots].set(new), largest=largest)
