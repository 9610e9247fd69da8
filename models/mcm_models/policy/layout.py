"""Shapes of the policy's weights, and its checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mcm_compiler.text.option_fields import checked, from_to
from mcm_models.cards import CheckpointCard, CheckpointKind, Singles, Weights, normal_weights
from mcm_models.policy.features import COLUMNS, FEATURES_VERSION, NUM_OP_CLASSES

NEIGHBOR_COLUMNS = 5
"""Features of a node's earlier choices: latest and mean of producers, earliest and mean of
consumers, and whether there are any choices yet."""


NORM_EPSILON = 1e-6
"""Added to the mean square that a layer divides by."""

LEAK = 0.1
"""Slope below zero in the head. Without one, hidden units that never answer cannot recover, and
early in training most of them went that way."""


@dataclass(frozen=True)
@checked(
    layers=from_to(1, 4096),
    width=from_to(1, 4096),
    head_width=from_to(1, 4096),
    iterations=from_to(1, 4096),
    op_width=from_to(1, 4096),
    around=from_to(0, 4096),
    knots=from_to(2, 4096),
)
class PolicyLayout:
    """Hyperparameters that decide which weights there are; defaults of MCM, section 5.1.

    Attributes:
        layers: GraphSAGE layers.
        width: features of a node between them.
        head_width: width of the head's two hidden layers.
        knots: places along the ring that the head scores. For as many chips they are the chips, as
            published; for other packages scores are interpolated between them (ours), so that
            one policy serves all.
        iterations: T of Eq. 7, rounds of decoding.
        op_width: width of the embedding of op classes.
        around: chips to either side of a node's place that have scores of their own, next to those
            of places along the ring; 0 for none, as published. What is learned of a node near its
            place holds wherever that is (ours).
        features_version: `FEATURES_VERSION` of what it reads.

    Raises:
        ValueError: if a number is out of range.
    """

    layers: int = 8
    width: int = 128
    head_width: int = 128
    knots: int = 36
    iterations: int = 1
    op_width: int = 16
    around: int = 12
    features_version: int = FEATURES_VERSION

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight; matrices are `[inputs, outputs]`."""
        width, head = self.width, self.head_width
        shapes: dict[str, tuple[int, ...]] = {
            "embed/op": (NUM_OP_CLASSES, self.op_width),
            "embed/kernel": (self.op_width + len(COLUMNS), width),
            "embed/bias": (width,),
        }
        for k in range(self.layers):
            shapes[f"sage/{k}/own"] = (width, width)
            shapes[f"sage/{k}/producers"] = (width, width)
            shapes[f"sage/{k}/consumers"] = (width, width)
            shapes[f"sage/{k}/bias"] = (width,)
            shapes[f"sage/{k}/scale"] = (width,)
        shapes["head/node"] = (width, head)
        shapes["head/embedded"] = (width, head)
        # The row after the last is for 'no choice yet'.
        shapes["head/own_choice"] = (self.knots + 1, head)
        shapes["head/neighbors"] = (NEIGHBOR_COLUMNS, head)
        shapes["head/bias0"] = (head,)
        shapes["head/hidden"] = (head, head)
        shapes["head/bias1"] = (head,)
        shapes["head/scores"] = (head, self.knots)
        shapes["head/bias2"] = (self.knots,)
        if self.around:
            shapes["head/around"] = (head, 2 * self.around + 1)
            shapes["head/bias3"] = (2 * self.around + 1,)
        return shapes


def initial_weights(layout: PolicyLayout, seed: int) -> Weights:
    """Random weights; the last layer starts small, so that the policy starts near uniform.

    Args:
        layout: which weights there are.
        seed: same seed, same bytes.
    """

    def deviation(name: str, shape: tuple[int, ...]) -> float | None:
        if len(shape) == 1:
            return None
        if name in {"head/scores", "head/around", "head/own_choice", "head/neighbors"}:
            return 0.01
        # He et al. 2015 for ReLU; three sums meet in a GraphSAGE layer.
        return math.sqrt((2.0 / 3.0 if name.startswith("sage") else 2.0) / shape[0])

    weights = normal_weights(layout.shapes(), seed, deviation)
    return {n: np.ones_like(w) if n.endswith("/scale") else w for n, w in weights.items()}


def knot_mixture(knots: int, num_chips: int) -> Singles:
    """`[knots, C]`, linear interpolation from scores of knots to scores of chips.

    Knots and chips both stand in the middle of equal parts of the ring; the identity where there
    are as many of one as of the other.
    """
    places = np.clip((np.arange(num_chips) + 0.5) * knots / num_chips - 0.5, 0, knots - 1)
    low = np.minimum(places.astype(np.int64), knots - 2)
    share = places - low
    mixture = np.zeros((knots, num_chips), np.float32)
    chips = np.arange(num_chips)
    mixture[low, chips] = 1.0 - share
    mixture[low + 1, chips] += share
    return mixture


def knot_of_chip(knots: int, num_chips: int) -> npt.NDArray[np.int32]:
    """`[C]`, the knot next to each chip."""
    return ((np.arange(num_chips) + 0.5) * knots / num_chips).astype(np.int32)


MAX_BYTES = 1 << 28
"""Largest checkpoint that is read: 256 MiB, about sixty times that of the default policy."""


@dataclass(frozen=True)
class PolicyCard(CheckpointCard):
    """Card of a policy.

    Attributes:
        layout: shape of the policy.
        recipe: name of the recipe that it was trained with.
        prior: deviation of the prior that belongs to it, in chips; 0 for none.
        sampler: sampler that it was trained with.
        trained_on: what it was trained on, as JSON data: data set, seed, samples, target,
            versions, metrics.
    """

    layout: PolicyLayout
    recipe: str = ""
    prior: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    sampler: str = "staircase"
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])


POLICIES = CheckpointKind(
    "policy",
    PolicyCard,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-L001", "MCM-L002", "MCM-L003"),
    "train one with `mcmc train policy`, or use the one that comes with the compiler",
)


SHIPPED_POLICY = Path(__file__).resolve().parent.parent / "checkpoints" / "policy.safetensors"
"""Its checkpoint; the card inside says how it was trained."""
