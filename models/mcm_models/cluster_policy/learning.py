"""Updates of the policy by PPO (Schulman et al. 2017) over single decisions, in JAX.

What the policy sees of a decision follows from the decisions before, which were taken: an update
needs no decoding, only the columns that were seen, so that it is one small network on many rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from mcm_compiler.text.option_ranges import above, at_least, checked
from mcm_models.cluster_policy.layout import Weights

Array = jax.Array
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
@checked(
    learning_rate=at_least(0),
    entropy=at_least(0),
    epochs=at_least(1),
    clip=above(0),
    gradient_norm=above(0),
)
class PpoSettings:
    """How the policy learns.

    Attributes:
        learning_rate: of Adam.
        entropy: weight of the entropy of a decision, in nats.
        epochs: gradient steps on the same decisions.
        clip: range of the ratio of probabilities.
        gradient_norm: to which gradients are cut.
    """

    learning_rate: float = 1e-3
    entropy: float = 0.01
    epochs: int = 3
    clip: float = 0.2
    gradient_norm: float = 1.0


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


def optimizer(settings: PpoSettings) -> optax.GradientTransformation:
    """Adam behind a cut of the gradient's norm."""
    return optax.chain(
        optax.clip_by_global_norm(settings.gradient_norm), optax.adam(settings.learning_rate)
    )


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

    def taken(table: Array) -> Array:
        return jnp.take_along_axis(table, rows.chosen[:, None], axis=-1)[:, 0]

    before = taken(log_p(weights))
    total = jnp.sum(rows.weight)

    def loss_of(weights: dict[str, Array]) -> tuple[Array, Array]:
        table = log_p(weights)
        ratio = jnp.exp(taken(table) - before)
        kept = jnp.clip(ratio, 1.0 - settings.clip, 1.0 + settings.clip)
        gain = jnp.minimum(ratio * rows.advantage, kept * rows.advantage)
        entropies = -jnp.sum(jnp.where(rows.allowed, jnp.exp(table) * table, 0.0), axis=-1)
        entropy = jnp.sum(entropies * rows.weight) / total
        return -jnp.sum(gain * rows.weight) / total - settings.entropy * entropy, entropy

    adam = optimizer(settings)

    def step(carry: Any, _: None) -> tuple[Any, Array]:
        weights, state = carry
        gradient, entropy = jax.grad(loss_of, has_aux=True)(weights)
        change, state = adam.update(gradient, state, weights)
        return (optax.apply_updates(weights, change), state), entropy

    (weights, state), entropies = jax.lax.scan(step, (weights, state), length=settings.epochs)
    return weights, state, entropies[0]


def padded(rows: Rows, devices: int, size: int) -> Rows:
    """The same with so many devices and rows, of which few sizes are compiled."""
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
