"""Checkpoints: weights as safetensors, with a card in the header that describes them.

A checkpoint may come from anywhere, so it is read as data only: safetensors holds no code, and
every name, type, shape and number is checked against the card before anything is computed. The
header is parsed here, because the library of the format gives the metadata of files on disk only,
and these are bytes whose size was checked.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.diagnostics.deprecations import removed_with
from mcm_compiler.diagnostics.refusals import notice
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.text.json_text import UnreadableError, parse_json, record_of

T = TypeVar("T")

Singles = npt.NDArray[np.float32]

Weights = dict[str, Singles]
"""Weights by name, as checkpoints hold them."""

Shapes = Mapping[str, tuple[int, ...]]

CARD_KEY = "mcm.card"
"""Key of the safetensors metadata under which the card is stored, as JSON."""


OLD_CARD_KEY = "mcm.training"
"""The same in states of trainings of policies that release 0.1.0 wrote."""


class _Header(Struct, frozen=True, rename={"metadata": "__metadata__"}):
    metadata: dict[str, str]


def card_of(data: bytes, kind: type[T]) -> T:
    """The card in the header: 8 bytes of length, then JSON.

    Raises:
        UnreadableError: if the header is cut off, or the card is missing or no `kind`.
        UnicodeDecodeError: if the header is no text.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise UnreadableError("its header is cut off")
    metadata = record_of(parse_json(data[8 : 8 + length].decode()), _Header).metadata
    if CARD_KEY not in metadata and OLD_CARD_KEY in metadata:
        notice(
            Diagnostic(
                "MCM-L014",
                f"the state of the training has its card under {OLD_CARD_KEY!r}, as release 0.1.0 "
                f"wrote it; reading it is {removed_with('training card')}",
                hint=f"go on with --resume: the next state has it under {CARD_KEY!r}",
            )
        )
        return record_of(parse_json(metadata[OLD_CARD_KEY]), kind)
    if CARD_KEY not in metadata:
        raise UnreadableError("it has no card")
    return record_of(parse_json(metadata[CARD_KEY]), kind)


def save_with_card(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], card: str, *, lasting: bool = False
) -> None:
    """Writes a checkpoint at once: a reader sees the old one or the new one.

    Args:
        path: the file.
        arrays: by name.
        card: as JSON.
        lasting: whether it is on disk when this returns, as the state of a training has to be.
    """
    from safetensors.numpy import save

    # Not `ascontiguousarray`, which makes a row of a scalar.
    ordered = {name: np.array(arrays[name], order="C") for name in sorted(arrays)}
    write_whole(path, save(ordered, metadata={CARD_KEY: card}), lasting=lasting)


def arrays_of(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a checkpoint.

    Raises:
        ValueError: if it is damaged or none.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def read_with_card(
    path: Path, kind: type[T], most: int | None = None
) -> tuple[T, dict[str, npt.NDArray[Any]]]:
    """The card of a file, and its arrays.

    Args:
        path: the file.
        kind: of the card.
        most: bytes that are read; None for any number.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged, none, or too large.
    """
    data = checkpoint_bytes(path, most)
    try:
        return card_of(data, kind), arrays_of(data)
    except UnreadableError as error:
        raise ValueError(str(error)) from error


def checkpoint_bytes(path: Path, most: int | None) -> bytes:
    """A checkpoint as it is on disk.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no regular file, or has more than `most` bytes.
    """
    if not path.is_file():
        raise ValueError("it is not a regular file")
    if most is not None and path.stat().st_size > most:
        raise ValueError(f"it has more than {most} bytes")
    return path.read_bytes()


def normal_weights(
    shapes: Shapes, seed: int, deviation: Callable[[str, tuple[int, ...]], float | None]
) -> Weights:
    """Normally distributed weights of mean 0.

    Args:
        shapes: by name.
        seed: same seed, same bytes.
        deviation: of a weight, from its name and shape; None for zeros that nothing is drawn for.
    """
    rng = np.random.default_rng(seed)
    weights: Weights = {}
    for name, shape in shapes.items():
        scale = deviation(name, shape)
        drawn = np.zeros(shape) if scale is None else scale * rng.standard_normal(shape)
        weights[name] = drawn.astype(np.float32)
    return weights


class Layout(Protocol):
    """Hyperparameters of a network."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        ...


@dataclass(frozen=True)
class CheckpointCard:
    """Card of a checkpoint; each kind has fields of its own, all of them JSON data.

    It has a `layout`, and this or the card itself the `features_version` of what the network reads.
    """

    def to_json(self) -> str:
        """As text with sorted keys."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, indent=2) + "\n"


C = TypeVar("C", bound=CheckpointCard)


@dataclass(frozen=True)
class CheckpointKind(Generic[C]):
    """How checkpoints of one kind are read, and refused.

    Attributes:
        name: for messages, such as `mapping model`.
        card: class of the cards.
        features: version of those that this compiler computes.
        most_bytes: size of the largest file that is read.
        codes: of diagnostics about a file that is damaged or no checkpoint, about other features,
            and about weights that do not fit the card.
        remedy: hint of these.
    """

    name: str
    card: type[C]
    features: int
    most_bytes: int
    codes: tuple[str, str, str]
    remedy: str

    def save(self, path: Path, weights: Mapping[str, Singles], card: C) -> None:
        """Writes a checkpoint at once: a reader sees the old one or the new one."""
        save_with_card(path, weights, card.to_json())

    def load(self, path: Path) -> tuple[Weights, C]:
        """Reads and checks a checkpoint.

        Raises:
            CompileError: one of `codes`.
        """
        try:
            data = checkpoint_bytes(path, self.most_bytes)
        except (OSError, ValueError) as error:
            raise self._refusal(0, f"cannot be read: {quote(str(error))}", str(path)) from error
        return self.parse(data, str(path))

    def parse(self, data: bytes, place: str) -> tuple[Weights, C]:
        """As `load`, from the bytes of a file; `place` names it in diagnostics."""
        try:
            card, weights = self._card_of(data), cast("Weights", arrays_of(data))
        except (UnreadableError, ValueError, KeyError, TypeError) as error:
            reason = f"is damaged or no checkpoint: {quote(str(error))}"
            raise self._refusal(0, reason, place) from error
        layout: Layout = cast("Any", card).layout
        version = vars(card).get("features_version", getattr(layout, "features_version", None))
        if version != self.features:
            reason = (
                f"was trained on features of version {version}, and this compiler computes "
                f"version {self.features}"
            )
            raise self._refusal(1, reason, place)
        if fault := _fault(weights, layout.shapes()):
            raise self._refusal(2, f"has weights that do not fit its card: {fault}", place)
        return weights, card

    def _card_of(self, data: bytes) -> C:
        stored = card_of(data, dict[str, Any])
        card = record_of(stored, self.card)
        for name, part in [("the card", card), *vars(card).items()]:
            if dataclasses.is_dataclass(part):
                known = {field.name for field in dataclasses.fields(part)}
                keys = stored if part is card else stored.get(name, {})
                if unknown := sorted(keys.keys() - known):
                    raise ValueError(f"{name} has the unknown key {quote(unknown[0])}")
        return card

    def _refusal(self, code: int, reason: str, place: str) -> CompileError:
        text = f"the {self.name} {reason}"
        return CompileError.of(self.codes[code], text, at=quote(place), hint=self.remedy)


def _fault(weights: Weights, shapes: Shapes) -> str | None:
    """The first weight by name that is missing, unknown, or of another type, shape or range."""
    for name in sorted(shapes.keys() | weights.keys()):
        if name not in weights:
            return f"{quote(name)} is missing"
        if name not in shapes:
            return f"{quote(name)} is unknown"
        array, shape = weights[name], shapes[name]
        if array.shape != shape or array.dtype != np.float32:
            return f"{quote(name)} is {array.dtype} {list(array.shape)}, not float32 {list(shape)}"
        if not np.isfinite(array).all():
            return f"{quote(name)} has numbers that are not finite"
    return None
