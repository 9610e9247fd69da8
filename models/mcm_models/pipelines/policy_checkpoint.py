"""Checkpoints of the pipeline policy: weights as safetensors, with a card inside.

A checkpoint may come from anywhere, so it is read as data only and every name, type, shape and
number is checked, as for the partitioning policy (`mcm_models.policy.layout`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mcm_models.cards import CheckpointCard, CheckpointKind, save_with_card
from mcm_models.dqn.network import QLayout, QNetwork, Singles
from mcm_models.pipelines.policy_features import (
    CONTEXT,
    FEATURES,
    FEATURES_VERSION,
    NUM_CANDIDATES,
)
from mcm_models.pipelines.published_environment import FLAT_LAYOUT

MAX_BYTES = 1 << 24
"""Largest checkpoint that is read: 16 MiB, two thousand times the default policy."""

MAX_LAYERS, MAX_WIDTH = 8, 1024

_Width = Annotated[int, Meta(ge=1, le=MAX_WIDTH)]

SHIPPED_PIPELINE_POLICY = (
    Path(__file__).resolve().parent.parent / "checkpoints" / "pipeline-policy.safetensors"
)
"""The policy that comes with the compiler; the card inside says how it was trained."""


@dataclass(frozen=True)
class PipelinePolicyCard(CheckpointCard):
    """Card of a pipeline policy.

    Attributes:
        hidden: widths of the hidden layers.
        features_version: of `policy_features`.
        flat: the network of the published setting, which sees no candidates.
        trained_on: settings, seed, samples, versions and scores, as JSON data.
    """

    hidden: Annotated[tuple[_Width, ...], Meta(min_length=1, max_length=MAX_LAYERS)]
    features_version: int = FEATURES_VERSION
    flat: bool = False
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def layout(self) -> QLayout:
        """Of the network."""
        if self.flat:
            return dataclasses.replace(FLAT_LAYOUT, hidden=self.hidden)
        return QLayout(FEATURES, CONTEXT, NUM_CANDIDATES, self.hidden)


PIPELINE_POLICIES = CheckpointKind(
    "pipeline policy",
    PipelinePolicyCard,
    lambda card: card.layout.shapes(),
    lambda card: card.features_version,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-S044", "MCM-S044", "MCM-S044"),
    "train one with `mcmc train pipeline`, or use the one that comes with the compiler",
)


def save_pipeline_policy(
    path: Path, weights: Mapping[str, Singles], card: PipelinePolicyCard
) -> None:
    """Writes a checkpoint at once: a reader sees the old one or the new one."""
    save_with_card(path, weights, card.to_json())


def load_pipeline_policy(
    path: Path = SHIPPED_PIPELINE_POLICY,
) -> tuple[QNetwork, PipelinePolicyCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-S044 if the file cannot be read, is no such checkpoint, was made for
            other features, or has weights that do not fit its card.
    """
    weights, card = PIPELINE_POLICIES.load(path)
    return QNetwork(card.layout, weights), card
