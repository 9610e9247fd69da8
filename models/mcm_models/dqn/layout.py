"""The Q-network's shape, its first weights, and its formula in NumPy or JAX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Singles = npt.NDArray[np.float32]
Weights = dict[str, Any]
"""Weights by name; NumPy arrays in checkpoints, JAX arrays while learning."""

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
        """Whether it sees the context alone."""
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


def initial_weights(layout: QLayout, seed: int) -> dict[str, Singles]:
    """Random weights (He et al. 2015), the heads small; same seed, same bytes."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Singles] = {}
    for name, shape in layout.shapes().items():
        if name.endswith("/bias"):
            weights[name] = np.zeros(shape, np.float32)
        else:
            deviation = math.sqrt(2.0 / shape[0]) if name.startswith("layer") else 0.01
            weights[name] = (deviation * rng.standard_normal(shape)).astype(np.float32)
    return weights


def q_values(
    layout: QLayout, weights: Weights, candidates: Any, context: Any, mask: Any, xp: Any
) -> Any:
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
        xp: `numpy` or `jax.numpy`.
    """
    allowed = xp.asarray(mask, xp.float32)
    share = allowed / xp.maximum(xp.sum(allowed, axis=-1, keepdims=True), 1.0)
    first, bias = weights["layer0/kernel"], weights["layer0/bias"]
    if layout.is_flat:
        hidden = context @ first + bias
    else:
        # The context's part of the first layer is the same for all candidates.
        shared = context @ first[layout.features :] + bias
        hidden = candidates @ first[: layout.features] + shared[..., None, :]
    hidden = xp.maximum(hidden, 0.0)
    for k in range(1, len(layout.hidden)):
        hidden = xp.maximum(hidden @ weights[f"layer{k}/kernel"] + weights[f"layer{k}/bias"], 0.0)
    advantage = hidden @ weights["advantage/kernel"]
    if not layout.is_flat:
        advantage = advantage[..., 0]
        hidden = xp.sum(hidden * share[..., None], axis=-2)
    value = hidden @ weights["value/kernel"] + weights["value/bias"]
    mean = xp.sum(advantage * share, axis=-1, keepdims=True)
    return xp.where(allowed > 0, value + advantage - mean, FORBIDDEN)
