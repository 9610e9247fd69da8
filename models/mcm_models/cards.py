"""Cards in the headers of safetensors files: what a checkpoint says of itself.

A checkpoint may come from anywhere, so that its header is read by hand as data: the library of the
format gives the metadata of files on disk only, and these are bytes whose size was looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from mcm_compiler.processes.whole_files import write_whole
from mcm_compiler.text.bounded_json import UnreadableError, parse_json
from mcm_compiler.text.json_records import record_of

T = TypeVar("T")

CARD_KEY = "mcm.card"
"""Key of the safetensors metadata under which the card is stored, as JSON."""


class _Metadata(Struct, frozen=True, rename={"card": CARD_KEY}):
    card: str


class _Header(Struct, frozen=True, rename={"metadata": "__metadata__"}):
    metadata: _Metadata


def card_of(data: bytes, kind: type[T]) -> T:
    """The card in the header: 8 bytes of length, then JSON.

    Raises:
        UnreadableError: if the header is cut off, or the card is missing or no `kind`.
        UnicodeDecodeError: if the header is no text.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise UnreadableError("its header is cut off")
    header = record_of(parse_json(data[8 : 8 + length].decode()), _Header)
    return record_of(parse_json(header.metadata.card), kind)


def save_with_card(path: Path, weights: Mapping[str, npt.NDArray[Any]], card: str) -> None:
    """Writes a checkpoint at once: whoever reads it sees the old one or the new one.

    Args:
        path: the file.
        weights: arrays by name.
        card: as JSON.
    """
    from safetensors.numpy import save

    data = save(
        {name: np.ascontiguousarray(array) for name, array in sorted(weights.items())},
        metadata={CARD_KEY: card},
    )
    write_whole(path, data)


def checkpoint_bytes(path: Path, most: int) -> bytes:
    """A checkpoint as it lies on disk.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no regular file, or has more than `most` bytes.
    """
    if not path.is_file():
        raise ValueError("it is not a regular file")
    if path.stat().st_size > most:
        raise ValueError(f"it has more than {most} bytes")
    return path.read_bytes()
