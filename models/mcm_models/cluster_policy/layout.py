"""Shapes of the weights of the placement policy, and its checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcm_compiler.text.option_fields import checked, from_to
from mcm_models.cards import CheckpointCard, CheckpointKind, Weights, normal_weights

FEATURES_VERSION = 1
"""Rises when a column changes its meaning."""

MAX_WIDTH = 1024
"""Of the hidden layers."""

COLUMNS = (
    "work of the cluster on the device",
    "work that the device has",
    "work of both above an equal share",
    "work of both above the most loaded other device",
    "work that both have at the same depth, more than there is time",
    "the same, more than on the best device",
    "share of the cluster's bytes that stay on the device",
    "copies to and from other devices",
    "the same, more than on the best device",
    "copies that leave the device",
    "variables of both, over memory",
    "values of both, over memory",
    "variables of both above memory",
    "speed, over that of the fastest device",
    "nothing is on the device yet",
    "the cluster before in order is on it",
    "second round",
    "the device that the cluster has from the first round",
    "equal share of work, over the critical path or that",
    "all copies, over the same",
    "one over the number of devices",
    "share of all work",
    "share of work that has no device yet",
    "logarithm of the number of clusters",
)
"""Features of a cluster and a device; times are over the longer of critical path and equal
share of work, so that models and boxes of all sizes look alike."""


@dataclass(frozen=True)
@checked(width=from_to(1, MAX_WIDTH))
class ClusterLayout:
    """Hyperparameters that decide which weights there are.

    Attributes:
        width: of both hidden layers.
        features_version: `FEATURES_VERSION` of what it reads.

    Raises:
        ValueError: if a number is out of range.
    """

    width: int = 32
    features_version: int = FEATURES_VERSION

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight; matrices are `[inputs, outputs]`."""
        return {
            "first": (len(COLUMNS), self.width),
            "first_bias": (self.width,),
            "second": (self.width, self.width),
            "second_bias": (self.width,),
            "linear": (len(COLUMNS), 1),
            "score": (self.width, 1),
        }


def initial_weights(layout: ClusterLayout, seed: int) -> Weights:
    """Random weights whose scores are near zero: every device is as likely at first."""
    return normal_weights(
        layout.shapes(),
        seed,
        lambda name, shape: (
            0.0
            if len(shape) == 1
            else 0.01
            if name in {"linear", "score"}
            else math.sqrt(2.0 / shape[0])
        ),
    )


MAX_BYTES = 1 << 24
"""Largest checkpoint that is read: 16 MiB, a thousand times the default policy."""

SHIPPED_PLACEMENT_POLICY = (
    Path(__file__).resolve().parent.parent / "checkpoints" / "placement-policy.safetensors"
)
"""The policy that comes with the compiler; the card inside says how it was trained."""


@dataclass(frozen=True)
class PlacementPolicyCard(CheckpointCard):
    """Card of a placement policy.

    Attributes:
        layout: shape of the policy.
        trained_on: settings, seed, cases, versions and scores, as JSON data.
    """

    layout: ClusterLayout
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])


PLACEMENT_POLICIES = CheckpointKind(
    "placement policy",
    PlacementPolicyCard,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-D065", "MCM-D065", "MCM-D065"),
    "train one with `mcmc train placement`, or use the one that comes with the compiler",
)
