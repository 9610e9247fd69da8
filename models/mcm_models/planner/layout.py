"""The planner's shape: hyperparameters, and the names and shapes of its weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.text.option_ranges import checked, even, from_to
from mcm_models.planner.op_features import ADJACENT, OUTPUTS

Singles = npt.NDArray[np.float32]
Weights = dict[str, Singles]
"""Weights by name."""

MAX_HIDDEN = 4096
"""Of the Placer's LSTMs."""


@dataclass(frozen=True)
@checked(
    groups=from_to(1, 1 << 16),
    devices=from_to(1, 4096),
    types=from_to(1, 1 << 16),
    hidden=even(2, MAX_HIDDEN),
    grouper_hidden=from_to(1, 4096),
    type_width=from_to(1, 4096),
)
class PlannerLayout:
    """Hyperparameters that decide which weights there are; widths of the authors' controller.

    Attributes:
        groups: M.
        devices: D.
        types: T, op types.
        hidden: of the Placer's LSTMs, an even number; each direction of the encoder has half.
        grouper_hidden: of the Grouper.
        type_width: of the embedding of op types (a choice: the controller has the bare number).

    Raises:
        ValueError: if a number is out of range.
    """

    groups: int
    devices: int
    types: int
    hidden: int = 512
    grouper_hidden: int = 64
    type_width: int = 20

    @property
    def op_columns(self) -> int:
        """What the Grouper sees of an op besides its type."""
        return 1 + OUTPUTS + ADJACENT

    @property
    def group_columns(self) -> int:
        """What the Placer sees of a group."""
        return self.types + 1 + OUTPUTS + 2 * self.groups

    def grouper_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight of the Grouper; matrices are `[inputs, outputs]`."""
        return {
            "types": (self.types, self.type_width),
            "hidden": (self.type_width + self.op_columns, self.grouper_hidden),
            "groups": (self.grouper_hidden, self.groups),
        }

    def placer_shapes(self) -> dict[str, tuple[int, ...]]:
        """The same for the Placer. Gates stand in the order input, forget, output, value."""
        hidden, half = self.hidden, self.hidden // 2
        return {
            "forward_in": (self.group_columns, 4 * half),
            "forward_own": (half, 4 * half),
            "backward_in": (self.group_columns, 4 * half),
            "backward_own": (half, 4 * half),
            "encoder_forget": (1,),
            "memory": (hidden, hidden),
            "query": (hidden, hidden),
            "attention": (hidden, 1),
            "first": (1, hidden),
            "devices": (self.devices, hidden),
            "decoder_in": (hidden, 4 * hidden),
            "decoder_own": (hidden, 4 * hidden),
            "decoder_forget": (1,),
            "logits": (2 * hidden, self.devices),
        }


def initial_weights(shapes: dict[str, tuple[int, ...]], seed: int) -> Weights:
    """Glorot's uniform weights, and 1 for the bias of forget gates, as in the controller.

    Args:
        shapes: by name.
        seed: same seed, same bytes.
    """
    rng = np.random.default_rng(seed)
    weights: Weights = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            weights[name] = np.ones(shape, np.float32)
        else:
            limit = math.sqrt(6.0 / (shape[0] + shape[1]))
            weights[name] = rng.uniform(-limit, limit, shape).astype(np.float32)
    return weights
