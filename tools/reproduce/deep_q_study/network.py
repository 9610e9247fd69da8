"""The Q-network: shape, first weights, values of actions, their gradients, and Adam; in NumPy.

A problem of some hundred decisions is learned in less time than a compiler of array programs takes
to load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mcm_models.cards import Singles, Weights, normal_weights

FORBIDDEN = -1e9
"""Value of an action that may not be taken."""


@dataclass(frozen=True)
class QLayout:
    """Hyperparameters that decide which weights there are.

    Attributes:
        features: F, of each candidate; 0 for the flat network, as published, which sees the context
            alone and values all actions at once.
        context: G, numbers that all candidates share.
        actions: A; a candidate network's weights do not depend on it.
        hidden: widths of the hidden layers.

    Raises:
        ValueError: if a number is out of range.
    """

    features: int
    context: int
    actions: int
    hidden: tuple[int, ...] = (32, 32)

    def __post_init__(self) -> None:
        if min(self.features, self.context) < 0 or self.features + self.context < 1:
            raise ValueError(f"{self.features} features and {self.context} in the context")
        if self.actions < 1 or not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"{self.actions} actions, hidden layers {self.hidden}")

    @property
    def is_flat(self) -> bool:
        """True where it sees the context alone."""
        return self.features == 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight; matrices are `[inputs, outputs]`."""
        shapes: dict[str, tuple[int, ...]] = {}
        width = self.features + self.context
        for k, hidden in enumerate(self.hidden):
            shapes[f"layer{k}/kernel"] = (width, hidden)
            shapes[f"layer{k}/bias"] = (hidden,)
            width = hidden
        shapes["advantage/kernel"] = (width, self.actions if self.is_flat else 1)
        shapes["value/kernel"] = (width, 1)
        shapes["value/bias"] = (1,)
        return shapes


def initial_weights(layout: QLayout, seed: int) -> Weights:
    """Random weights (He et al. 2015), the heads small; same seed, same bytes."""

    def deviation(name: str, shape: tuple[int, ...]) -> float | None:
        if name.endswith("/bias"):
            return None
        return math.sqrt(2.0 / shape[0]) if name.startswith("layer") else 0.01

    return normal_weights(layout.shapes(), seed, deviation)


def q_values(
    layout: QLayout,
    weights: Mapping[str, Singles],
    candidates: Singles,
    context: Singles,
    mask: np.ndarray,
) -> Singles:
    """Values of all actions, `[..., A]`; `FORBIDDEN` outside the mask.

    Dueling (Wang et al. 2016, Eq. 9): the value of the state plus the advantage over the mean of
    the allowed actions. A candidate network takes the state's value from the mean of what its
    last hidden layer makes of the allowed candidates.

    Args:
        layout: of the network.
        weights: by name.
        candidates: `[..., A, F]`.
        context: `[..., G]`.
        mask: `[..., A]` bool.
    """
    allowed = np.asarray(mask, np.float32)
    share = allowed / np.maximum(np.sum(allowed, axis=-1, keepdims=True), 1.0)
    first, bias = weights["layer0/kernel"], weights["layer0/bias"]
    if layout.is_flat:
        hidden = context @ first + bias
    else:
        # The context's part of the first layer is the same for all candidates.
        shared = context @ first[layout.features :] + bias
        hidden = candidates @ first[: layout.features] + shared[..., None, :]
    hidden = np.maximum(hidden, 0.0)
    for k in range(1, len(layout.hidden)):
        hidden = np.maximum(hidden @ weights[f"layer{k}/kernel"] + weights[f"layer{k}/bias"], 0.0)
    advantage = hidden @ weights["advantage/kernel"]
    if not layout.is_flat:
        advantage = advantage[..., 0]
        hidden = np.sum(hidden * share[..., None], axis=-2)
    value = hidden @ weights["value/kernel"] + weights["value/bias"]
    mean = np.sum(advantage * share, axis=-1, keepdims=True)
    return np.where(allowed > 0, value + advantage - mean, FORBIDDEN)


def gradients(
    layout: QLayout,
    weights: Weights,
    candidates: Singles,
    context: Singles,
    mask: Singles,
    slope: Singles,
) -> Weights:
    """Gradient of `sum(slope * q_values(...))` by each weight.

    Args:
        layout: of the network.
        weights: by name.
        candidates: `[B, A, F]`.
        context: `[B, G]`.
        mask: `[B, A]`, 1 for allowed actions.
        slope: `[B, A]`, 0 for actions that are not allowed.
    """
    share = mask / np.maximum(mask.sum(axis=-1, keepdims=True), 1.0)
    if layout.is_flat:
        inputs = context
    else:
        spread = np.broadcast_to(context[:, None], (*mask.shape, context.shape[-1]))
        inputs = np.concatenate([candidates, spread], axis=-1)
    kept = [inputs]
    for k in range(len(layout.hidden)):
        inputs = inputs @ weights[f"layer{k}/kernel"] + weights[f"layer{k}/bias"]
        inputs = np.maximum(inputs, np.float32(0.0))
        kept.append(inputs)
    total = slope.sum(axis=-1, keepdims=True)
    of_advantage = slope - share * total
    found: Weights = {"value/bias": total.sum(axis=0)}
    if layout.is_flat:
        found["advantage/kernel"] = inputs.T @ of_advantage
        found["value/kernel"] = inputs.T @ total
        back = of_advantage @ weights["advantage/kernel"].T + total @ weights["value/kernel"].T
    else:
        pooled = np.einsum("bah,ba->bh", inputs, share)
        found["advantage/kernel"] = np.einsum("bah,ba->h", inputs, of_advantage)[:, None]
        found["value/kernel"] = pooled.T @ total
        back = of_advantage[..., None] * weights["advantage/kernel"][:, 0]
        back = back + (share * total)[..., None] * weights["value/kernel"][:, 0]
    for k in reversed(range(len(layout.hidden))):
        back = back * (kept[k + 1] > 0)
        rows, slopes = kept[k].reshape(-1, kept[k].shape[-1]), back.reshape(-1, back.shape[-1])
        found[f"layer{k}/kernel"] = rows.T @ slopes
        found[f"layer{k}/bias"] = slopes.sum(axis=0)
        if k:
            back = back @ weights[f"layer{k}/kernel"].T
    return found


@dataclass(eq=False)
class Adam:
    """Adam (Kingma and Ba 2015) behind a cut of the gradient's norm.

    Attributes:
        max_gradient: that norm.
        step: steps so far.
    """

    max_gradient: float
    step: int = 0
    _mean: Weights = field(default_factory=dict[str, Singles])
    _square: Weights = field(default_factory=dict[str, Singles])

    def update(self, weights: Weights, gradient: Weights, rate: float) -> Weights:
        """New weights."""
        norm = float(np.sqrt(sum(float((part * part).sum()) for part in gradient.values())))
        cut = np.float32(min(1.0, self.max_gradient / max(norm, 1e-30)))
        self.step += 1
        size = np.float32(rate * np.sqrt(1.0 - 0.999**self.step) / (1.0 - 0.9**self.step))
        new: Weights = {}
        for name, weight in weights.items():
            slope = gradient[name] * cut
            if name not in self._mean:
                self._mean[name], self._square[name] = np.zeros_like(weight), np.zeros_like(weight)
            mean, square = self._mean[name], self._square[name]
            mean += np.float32(0.1) * (slope - mean)
            square += np.float32(0.001) * (slope * slope - square)
            change: Singles = size * mean / (np.sqrt(square) + np.float32(1e-8))
            new[name] = weight - change
        return new
