"""Checkpoints of the pipeline policy: weights as safetensors, with a card inside.

A checkpoint may come from anywhere, so it is read as data only and every name, type, shape and
number is checked, as for the partitioning policy (`mcm_models.policy.checkpoint`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from msgspec import Meta, Struct

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.bounded_json import UnreadableError
from mcm_models.cards import card_of, checkpoint_bytes, save_with_card
from mcm_models.dqn.inference import QNetwork
from mcm_models.dqn.layout import QLayout, Singles
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

SHIPPED_PIPELINE_POLICY = (
    Path(__file__).resolve().parent.parent / "checkpoints" / "pipeline-policy.safetensors"
)
"""The policy that comes with the compiler; the card inside says how it was trained."""


@dataclass(frozen=True)
class PipelinePolicyCard:
    """What a checkpoint is.

    Attributes:
        hidden: widths of the hidden layers.
        features_version: of `policy_features`.
        flat: the network of the published setting, which sees no candidates.
        trained_on: settings, seed, samples, versions and scores, as JSON data.
    """

    hidden: tuple[int, ...]
    features_version: int = FEATURES_VERSION
    flat: bool = False
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def layout(self) -> QLayout:
        """Of the network."""
        if self.flat:
            return dataclasses.replace(FLAT_LAYOUT, hidden=self.hidden)
        return QLayout(FEATURES, CONTEXT, NUM_CANDIDATES, self.hidden)

    def to_json(self) -> str:
        """As text with sorted keys."""
        fields = {
            "hidden": list(self.hidden),
            "features_version": self.features_version,
            "flat": self.flat,
            "trained_on": dict(self.trained_on),
        }
        return json.dumps(fields, sort_keys=True, indent=2) + "\n"


class _CardFile(Struct, frozen=True):
    """A card as it is stored."""

    hidden: tuple[Annotated[int, Meta(ge=1, le=MAX_WIDTH)], ...]
    features_version: int
    flat: bool = False
    trained_on: dict[str, Any] = {}


def save_pipeline_policy(
    path: Path, weights: Mapping[str, Singles], card: PipelinePolicyCard
) -> None:
    """Writes a checkpoint at once: whoever reads it sees the old one or the new one."""
    save_with_card(path, weights, card.to_json())


def load_pipeline_policy(
    path: Path = SHIPPED_PIPELINE_POLICY,
) -> tuple[QNetwork, PipelinePolicyCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-S044 if the file cannot be read, is no such checkpoint, was made for
            other features, or has weights that do not fit its card.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = checkpoint_bytes(path, MAX_BYTES)
        card = _card_of(data)
        weights = cast("dict[str, Singles]", load(data))
        _check_weights(weights, card.layout)
    except (OSError, SafetensorError, UnreadableError, ValueError, KeyError, TypeError) as error:
        raise CompileError(
            Diagnostic(
                "MCM-S044",
                f"the pipeline policy cannot be used: {quote(str(error))}",
                at=quote(str(path)),
                hint="train one with `mcmc train pipeline`, or use the one that comes with the "
                "compiler",
            )
        ) from error
    return QNetwork(card.layout, weights), card


def _card_of(data: bytes) -> PipelinePolicyCard:
    """The card in the header.

    Raises:
        UnreadableError, ValueError: if there is none, or it is for other features.
    """
    found = card_of(data, _CardFile)
    if found.features_version != FEATURES_VERSION:
        raise ValueError(f"it was trained on features of version {found.features_version!r}")
    if not 1 <= len(found.hidden) <= MAX_LAYERS:
        raise ValueError("its hidden layers are out of range")
    return PipelinePolicyCard(found.hidden, found.features_version, found.flat, found.trained_on)


def _check_weights(weights: Mapping[str, Singles], layout: QLayout) -> None:
    shapes = layout.shapes()
    if weights.keys() != shapes.keys():
        raise ValueError("its weights have other names than its card says")
    for name, shape in shapes.items():
        array = weights[name]
        if array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(f"the weight {name} is not finite float32 {list(shape)}")
