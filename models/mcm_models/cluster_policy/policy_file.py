"""Checkpoints of the policy: weights as safetensors, with a card inside.

A checkpoint may come from anywhere, so it is read as data only and every name, type, shape and
number is checked, as for the partitioning policy (`mcm_models.policy.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcm_models.cards import CheckpointCard, CheckpointKind, save_with_card
from mcm_models.cluster_policy.layout import FEATURES_VERSION, ClusterLayout, Weights

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
    lambda card: card.layout.shapes(),
    lambda card: card.layout.features_version,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-D065", "MCM-D065", "MCM-D065"),
    "train one with `mcmc train placement`, or use the one that comes with the compiler",
)


def save_placement_policy(path: Path, weights: Weights, card: PlacementPolicyCard) -> None:
    """Writes a checkpoint at once: a reader sees the old one or the new one."""
    save_with_card(path, weights, card.to_json())


def load_placement_policy(
    path: Path = SHIPPED_PLACEMENT_POLICY,
) -> tuple[Weights, PlacementPolicyCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-D065 if the file cannot be read, is no such checkpoint, was made for
            other features, or has weights that do not fit its card.
    """
    return PLACEMENT_POLICIES.load(path)
