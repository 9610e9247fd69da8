"""Updates of the policy by PPO (Schulman et al. 2017) over single decisions, in JAX.

The policy's input for a decision follows from the decisions before, which were taken. An update
needs no decoding, only the columns that were seen: it is one small network on many rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mcm_models.cluster_policy.layout import Weights
from mcm_models.ppo import adam, gains, gradient_steps, taken
from mcm_models.ppo_settings import PpoSettings

Array = jax.Array
Singles = npt.NDArray[np.float32]


class Rows(NamedTuple):
    """R decisions, padded to one number of devices.

    Attributes:
        seen: `[R, D, COLUMNS]`.
        allowed: `[R, D]`.
        chosen: `[R]`.
        advantage: `[R]`; 0 for rows that are none.
        weight: `[R]`, 1 for decisions, 0 for rows that are none.
    """

    seen: Singles
    allowed: npt.NDArray[np.bool_]
    chosen: npt.NDArray[np.int32]
    advantage: Singles
    weight: Singles


@partial(jax.jit, static_argnames=("settings",))
def update(
    settings: PpoSettings, weights: dict[str, Array], state: Any, rows: Rows
) -> tuple[dict[str, Array], Any, Array]:
    """All gradient steps on one batch.

    Args:
        settings: of PPO.
        weights: of the policy that decided.
        state: of the optimizer.
        rows: decisions.

    Returns:
        New weights and state, and the mean entropy of decisions before, in nats.
    """

    def log_p(weights: dict[str, Array]) -> Array:
        one = jax.nn.relu(rows.seen @ weights["first"] + weights["first_bias"])
        two = jax.nn.relu(one @ weights["second"] + weights["second_bias"])
        scores = (rows.seen @ weights["linear"] + two @ weights["score"])[..., 0]
        return jax.nn.log_softmax(jnp.where(rows.allowed, scores, -1e9), axis=-1)

    before = taken(log_p(weights), rows.chosen)
    total = jnp.sum(rows.weight)

    def loss_of(weights: dict[str, Array], _: Any) -> tuple[Array, Array]:
        table = log_p(weights)
        gain, _ = gains(taken(table, rows.chosen), before, rows.advantage, settings.clip)
        entropies = -jnp.sum(jnp.where(rows.allowed, jnp.exp(table) * table, 0.0), axis=-1)
        entropy = jnp.sum(entropies * rows.weight) / total
        return -jnp.sum(gain * rows.weight) / total - settings.entropy * entropy, entropy

    optimizer = adam(settings.max_gradient, settings.learning_rate)
    weights, state, metrics = gradient_steps(loss_of, optimizer, weights, state, settings.epochs)
    return weights, state, metrics.figures[0]


def padded(rows: Rows, devices: int, size: int) -> Rows:
    """The same with this many devices and rows, of which few sizes are compiled."""
    count, before = len(rows.chosen), rows.seen.shape[1]
    grown = np.zeros((size, devices, rows.seen.shape[2]), np.float32)
    grown[:count, :before] = rows.seen
    allowed = np.zeros((size, devices), np.bool_)
    allowed[:count, :before] = rows.allowed
    allowed[count:, 0] = True
    more = (0, size - count)
    return Rows(
        grown,
        allowed,
        np.pad(rows.chosen, more),
        np.pad(rows.advantage, more),
        np.pad(rows.weight, more),
    )


def arrays_of(weights: Any) -> Weights:
    """Weights as NumPy arrays."""
    found = cast("dict[str, Array]", weights)
    return {name: np.asarray(found[name]) for name in sorted(found)}
