"""Checkpoints of policies: weights as safetensors, with a card inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mcm_models.cards import CheckpointCard, CheckpointKind, save_with_card
from mcm_models.policy.features import FEATURES_VERSION
from mcm_models.policy.layout import PolicyLayout, Weights

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
    lambda card: card.layout.shapes(),
    lambda card: card.layout.features_version,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-L001", "MCM-L002", "MCM-L003"),
    "train one with `mcmc train policy`, or use the one that comes with the compiler",
)


def save_checkpoint(path: Path, weights: Weights, card: PolicyCard) -> None:
    """Writes a checkpoint at once: a reader sees the old one or the new one."""
    save_with_card(path, weights, card.to_json())


def load_checkpoint(path: Path) -> tuple[Weights, PolicyCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-L001 where the file cannot be read or is no such file, MCM-L002 where it
            was made for other features, MCM-L003 where weights do not fit the card.
    """
    return POLICIES.load(path)


def parse_checkpoint(data: bytes, place: str) -> tuple[Weights, PolicyCard]:
    """As `load_checkpoint`, from the bytes of a file; `place` names it in diagnostics."""
    return POLICIES.parse(data, place)
