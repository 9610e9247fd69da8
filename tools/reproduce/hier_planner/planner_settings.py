"""Settings of the planner, and shapes of its weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hier_planner.op_features import ADJACENT, OUTPUTS
from mcm_compiler.text.option_fields import above, at_least, checked, even, from_to

Baseline = Literal["average", "batch"]
"""What a sample is compared with: a moving average of signals, or the other samples, in standard
deviations."""


@dataclass(frozen=True)
@checked(
    samples=at_least(1),
    learning_rate=at_least(0),
    gradient_norm=above(0),
    entropy=at_least(0),
    epochs=at_least(1),
    clip=at_least(0),
)
class PlannerSettings:
    """Constants of learning.

    The defaults are those of the authors' public controller (TensorFlow,
    `grappler/hierarchical_controller.py`); what it has none for is marked as a choice.

    Attributes:
        samples: K, placements per update (a choice; the controller has one per process).
        learning_rate: of Adam, until `decay_after`.
        decay: factor of the rate every `decay_every` updates after `decay_after`.
        decay_after: updates.
        decay_every: updates.
        gradient_norm: to which the gradient of all weights is cut.
        baseline: see `Baseline`.
        average_keeps: share of the moving average that an update keeps.
        failing_s: what counts as the runtime of a placement that does not fit; infinite where the
            score of the evaluator counts, which has a slope (ours).
        noise: deviation of what is added to logits, as a multiple of their root mean square.
        noise_until: updates.
        tanh_constant: c of `c tanh(logits)` of devices; 0 for logits without limit.
        entropy: weight of the entropy of a decision, in nats.
        epochs: gradient steps on the same samples.
        clip: of PPO (Schulman et al. 2017), for several epochs; 0 for none.
        credit: weight of what a decision is credited with besides its placement's signal; see
            `hier_planner.planning`.
    """

    samples: int = 4
    learning_rate: float = 0.1
    decay: float = 0.95
    decay_after: int = 400
    decay_every: int = 50
    gradient_norm: float = 1.0
    baseline: Baseline = "average"
    average_keeps: float = 0.9
    failing_s: float = 100.0
    noise: float = 0.5
    noise_until: int = 750
    tanh_constant: float = 1.0
    entropy: float = 0.0
    epochs: int = 1
    clip: float = 0.0
    credit: float = 0.0

    def rate_at(self, update: int) -> float:
        """Learning rate of an update, from 0."""
        decays = max(0, update - self.decay_after) // self.decay_every
        return self.learning_rate * self.decay**decays

    def noise_at(self, update: int) -> float:
        """Noise of an update, from 0."""
        return self.noise if update <= self.noise_until else 0.0

    @property
    def has_slope(self) -> bool:
        """Whether placements that do not fit tell how far they are from fitting."""
        return math.isinf(self.failing_s)


PUBLISHED = PlannerSettings()

OURS = PlannerSettings(
    learning_rate=1e-3,
    decay=1.0,
    baseline="batch",
    failing_s=math.inf,
    noise=0.0,
    tanh_constant=0.0,
    entropy=0.03,
)


def default_groups(devices: int) -> int:
    """M of the authors' controller."""
    return min(256, 20 * devices)


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
