"""Checkpoints of policies: weights as safetensors, with a card beside them.

A checkpoint may come from anywhere, so it is read as data only: safetensors holds no code, the
card says which weights there must be, and every name, type, shape and number is checked against
it before anything is computed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.bounded_json import UnreadableError
from mcm_models.cards import card_of, save_with_card
from mcm_models.policy.features import FEATURES_VERSION
from mcm_models.policy.layout import PolicyLayout, Weights

MAX_BYTES = 1 << 28
"""Largest checkpoint that is read: 256 MiB, some sixty times that of the default policy."""


@dataclass(frozen=True)
class PolicyCard:
    """What a checkpoint is.

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
    prior: float = 0.0
    sampler: str = "staircase"
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> str:
        """As text with sorted keys."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, indent=2) + "\n"


class _CardFile(Struct, frozen=True):
    """A card as it is stored; the layout checks its own numbers."""

    layout: dict[str, int]
    recipe: str = ""
    prior: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    sampler: str = "staircase"
    trained_on: dict[str, Any] = {}


def save_checkpoint(path: Path, weights: Weights, card: PolicyCard) -> None:
    """Writes a checkpoint at once: whoever reads it sees the old one or the new one."""
    save_with_card(path, weights, card.to_json())


def load_checkpoint(path: Path) -> tuple[Weights, PolicyCard]:
    """Reads and checks a checkpoint.

    Raises:
        CompileError: MCM-L001 where the file cannot be read or is no such file, MCM-L002 where it
            was made for other features, MCM-L003 where weights do not fit the card.
    """
    return parse_checkpoint(_bytes_of(path), str(path))


def parse_checkpoint(data: bytes, place: str) -> tuple[Weights, PolicyCard]:
    """As `load_checkpoint`, from the bytes of a file; `place` names it in diagnostics."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = card_of(data, _CardFile)
        layout = PolicyLayout(**found.layout)
        card = PolicyCard(layout, found.recipe, found.prior, found.sampler, found.trained_on)
        weights = load(data)
    except (SafetensorError, UnreadableError, ValueError, KeyError, TypeError) as error:
        raise _error(
            "MCM-L001", f"the policy checkpoint is damaged or none: {quote(str(error))}", place
        ) from error
    if card.layout.features_version != FEATURES_VERSION:
        raise _error(
            "MCM-L002",
            f"the policy was trained on features of version {card.layout.features_version}, and "
            f"this compiler computes version {FEATURES_VERSION}",
            place,
        )
    faults = list(_faults(weights, card.layout))
    if faults:
        raise _error("MCM-L003", f"the policy's weights do not fit its card: {faults[0]}", place)
    return weights, card


def _bytes_of(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        # A pipe without a writer would be waited for.
        if not path.is_file():
            raise _error("MCM-L001", "the policy checkpoint is not a regular file", str(path))
        if size > MAX_BYTES:
            raise _error(
                "MCM-L001", f"it has {size} bytes, and at most {MAX_BYTES} are read", str(path)
            )
        return path.read_bytes()
    except OSError as error:
        raise _error(
            "MCM-L001", f"the policy checkpoint cannot be read: {error.strerror}", str(path)
        ) from error


def _faults(weights: Weights, layout: PolicyLayout) -> list[str]:
    shapes = layout.shapes()
    faults = [f"{quote(name)} is missing" for name in shapes if name not in weights]
    faults += [f"{quote(name)} is unknown" for name in weights if name not in shapes]
    for name in shapes.keys() & weights.keys():
        array = weights[name]
        if array.shape != shapes[name] or array.dtype != np.float32:
            faults.append(
                f"{quote(name)} is {array.dtype} {list(array.shape)}, not float32 "
                f"{list(shapes[name])}"
            )
        elif not np.isfinite(array).all():
            faults.append(f"{quote(name)} has numbers that are not finite")
    return sorted(faults)


def _error(code: str, message: str, place: str) -> CompileError:
    hint = "train one with `mcmc train policy`, or use the one that comes with the compiler"
    return CompileError([Diagnostic(code, message, at=quote(place), hint=hint)])
