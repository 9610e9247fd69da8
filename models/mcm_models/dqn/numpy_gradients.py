"""Gradients of the Q-network, and Adam, in NumPy.

For problems that are learned in less time than JAX takes to load and compile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mcm_models.dqn.layout import QLayout, Singles


def gradients(
    layout: QLayout,
    weights: dict[str, Singles],
    candidates: Singles,
    context: Singles,
    mask: Singles,
    slope: Singles,
) -> dict[str, Singles]:
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
    found: dict[str, Singles] = {"value/bias": total.sum(axis=0)}
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
    _mean: dict[str, Singles] = field(default_factory=dict[str, Singles])
    _square: dict[str, Singles] = field(default_factory=dict[str, Singles])

    def update(
        self, weights: dict[str, Singles], gradient: dict[str, Singles], rate: float
    ) -> dict[str, Singles]:
        """New weights."""
        norm = float(np.sqrt(sum(float((part * part).sum()) for part in gradient.values())))
        cut = np.float32(min(1.0, self.max_gradient / max(norm, 1e-30)))
        self.step += 1
        size = np.float32(rate * np.sqrt(1.0 - 0.999**self.step) / (1.0 - 0.9**self.step))
        new: dict[str, Singles] = {}
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

    def arrays(self) -> dict[str, Singles]:
        """Moments by `mean/` and `square/` and the names of weights; none before the first step."""
        kept = {"mean": self._mean, "square": self._square}
        return {f"{kind}/{name}": part for kind, of in kept.items() for name, part in of.items()}

    def take(self, step: int, arrays: dict[str, Singles], names: Iterable[str]) -> None:
        """Goes on from what `arrays` gave after so many steps.

        Raises:
            KeyError: if the moments of a weight are missing.
        """
        wanted = list(names) if step else []
        self.step = step
        # They are changed in place.
        self._mean = {name: arrays[f"mean/{name}"].copy() for name in wanted}
        self._square = {name: arrays[f"square/{name}"].copy() for name in wanted}
