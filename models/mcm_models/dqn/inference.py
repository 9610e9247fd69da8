"""A trained Q-network in NumPy, for compiles; equals the one that JAX trains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_models.dqn.layout import QLayout, Singles, q_values


@dataclass(frozen=True, eq=False)
class QNetwork:
    """Values of actions.

    Attributes:
        layout: its shape.
        weights: by name, as `QLayout.shapes` lists them.
    """

    layout: QLayout
    weights: dict[str, Singles]

    def values(self, candidates: Singles, context: Singles, mask: np.ndarray) -> Singles:
        """`[..., A]`, from `[..., A, F]`, `[..., G]` and `[..., A]`; see `layout.q_values`."""
        return q_values(self.layout, self.weights, candidates, context, mask, np)
