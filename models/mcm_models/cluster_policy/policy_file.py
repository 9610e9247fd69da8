"""Checkpoints of the policy: weights as safetensors, with a card inside.

A checkpoint may come from anywhere, so it is read as data only and every name, type, shape and
number is checked, as for the partitioning policy (`mcm_models.policy.checkpoint`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.bounded_json import UnreadableError
from mcm_models.cards import card_of, checkpoint_bytes, save_with_card
from mcm_models.cluster_policy.layout import FEATURES_VERSION, ClusterLayout, Weights

MAX_BYTES = 1 << 24
"""Largest checkpoint that is read: 16 MiB, a thousand times the default policy."""

SHIPPED_PLACEMENT_POLICY = (
    Path(__file__).resolve().parent.parent / "checkpoints" / "placement-policy.safetensors"
)
"""The policy that comes with the compiler; the card inside says how it was trained."""


@dataclass(frozen=True)
class PlacementPolicyCard:
    """What a checkpoint is.

    Attributes:
        layout: shape of the policy.
        trained_on: settings, seed, cases, versions and scores, as JSON data.
    """

    layout: ClusterLayout
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> str:
        """As text with sorted keys."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, indent=2) + "\n"


class _CardFile(Struct, frozen=True):
    """A card as it is stored; the layout checks its own numbers."""

    layout: dict[str, int]
    trained_on: dict[str, Any] = {}


def save_placement_policy(path: Path, weights: Weights, card: PlacementPolicyCard) -> None:
    """Writes a checkpoint at once: whoever reads it sees the old one or the new one."""
    save_with_card(path, weights, card.to_json())


def load_placement_policy(
    path: Path = SHIPPED_PLACEMENT_POLICY,
) -> tuple[Weights, PlacementPolicyCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-D065 if the file cannot be read, is no such checkpoint, was made for
            other features, or has weights that do not fit its card.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = checkpoint_bytes(path, MAX_BYTES)
        found = card_of(data, _CardFile)
        card = PlacementPolicyCard(ClusterLayout(**found.layout), found.trained_on)
        if card.layout.features_version != FEATURES_VERSION:
            version = card.layout.features_version
            raise ValueError(f"it was trained on features of version {version}")
        weights = load(data)
        _check_weights(weights, card.layout)
    except (OSError, SafetensorError, UnreadableError, ValueError, KeyError, TypeError) as error:
        raise CompileError(
            Diagnostic(
                "MCM-D065",
                f"the placement policy cannot be used: {quote(str(error))}",
                at=quote(str(path)),
                hint="train one with `mcmc train placement`, or use the one that comes with the "
                "compiler",
            )
        ) from error
    return weights, card


def _check_weights(weights: Weights, layout: ClusterLayout) -> None:
    shapes = layout.shapes()
    if weights.keys() != shapes.keys():
        raise ValueError("its weights have other names than its card says")
    for name, shape in shapes.items():
        array = weights[name]
        if array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(f"the weight {name} is not finite float32 {list(shape)}")
