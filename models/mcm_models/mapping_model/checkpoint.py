"""Checkpoints of mapping models: weights as safetensors, with a card inside.

A checkpoint may come from anywhere, so it is read as data only and every name, type, shape and
number is checked. What it has learned holds for one make of fabric, one lowering and one physics;
the card has a hash of each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_compiler.diagnostics import CompileError, quote
from mcm_models.cards import CheckpointCard, CheckpointKind, save_with_card
from mcm_models.mapping_model.layout import FEATURES_VERSION, MappingLayout, Weights

MAX_BYTES = 1 << 20
"""Largest checkpoint that is read: 1 MiB, ten times the default model."""

SHIPPED_MAPPING_MODEL = (
    Path(__file__).resolve().parent.parent / "checkpoints" / "mapping-model.safetensors"
)
"""The model that comes with the compiler; the card inside says how it was trained."""

_MAKE = (
    "macs_per_cycle",
    "lanes",
    "flit_elements",
    "element_bytes",
    "banks",
    "hop_cycles",
    "fifo_flits",
    "window_flits",
    "output_flits",
)


@dataclass(frozen=True)
class Learned:
    """What a model has learned of, as hashes.

    Attributes:
        make: `make_of` the fabric.
        lowering: `MapsChips.lowering_hash`.
        physics: `MappingJudge.physics`.
    """

    make: str
    lowering: str
    physics: str


@dataclass(frozen=True)
class MappingCard(CheckpointCard):
    """Card of a mapping model.

    Attributes:
        layout: shape of the network.
        learned: what it knows.
        trained_on: seed, settings, samples, versions and scores, as JSON data.
    """

    layout: MappingLayout
    learned: Learned
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])


MAPPING_MODELS = CheckpointKind(
    "mapping model",
    MappingCard,
    lambda card: card.layout.shapes(),
    lambda card: card.layout.features_version,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-M050", "MCM-M051", "MCM-M052"),
    "train one with `mcmc train mapping-model`, or use an analytic model such as "
    "--mapping-model round-trips",
)


def make_of(fabric: Fabric) -> str:
    """A hash of what decides how a fabric behaves, whatever its size.

    Rows, columns, the number of memory channels, the clock and the room in memory units are not in
    it: features are over the bound and over the sides of the mesh.
    """
    numbers = {name: getattr(fabric, name) for name in _MAKE}
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]


def save_mapping_model(path: Path, weights: Weights, card: MappingCard) -> None:
    """Writes a checkpoint at once: a reader sees the old one or the new one."""
    save_with_card(path, weights, card.to_json())


def load_mapping_model(path: Path = SHIPPED_MAPPING_MODEL) -> tuple[Weights, MappingCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-M050 if the file cannot be read or is no such checkpoint, MCM-M051 if it
            was made for other features, MCM-M052 if weights do not fit its card.
    """
    return MAPPING_MODELS.load(path)


def check_learned(card: MappingCard, wanted: Learned, place: str) -> None:
    """Refuses a model that has learned of something else.

    Args:
        card: of the model.
        wanted: what it is to be used for.
        place: names the model in diagnostics.

    Raises:
        CompileError: MCM-M053.
    """
    differs = [
        f"{words} {getattr(card.learned, name)}, not {getattr(wanted, name)}"
        for name, words in (
            ("make", "fabrics of the make"),
            ("lowering", "the lowering"),
            ("physics", "the physics"),
        )
        if getattr(card.learned, name) != getattr(wanted, name)
    ]
    if differs:
        raise CompileError.of(
            "MCM-M053",
            f"the mapping model has learned of {quote('; of '.join(differs))}",
            at=quote(place),
            hint=MAPPING_MODELS.remedy,
        )
