"""Arrays and lists of texts as JSON strings: bytes, deflated, in base64.

A page of a model with 100,000 ops holds millions of numbers; as JSON they would be ten times as
long, and slow to read. `unpack.js` of the page reads them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from mcm_compiler.text.units import printable


class Packed(TypedDict):
    """Bytes in base64, deflated, and what they are: `f8`, `f4`, `i4`, `u2`, `u1`, or `texts`."""

    type: str
    data: str


_TYPES = {
    "f8": np.dtype("<f8"),
    "f4": np.dtype("<f4"),
    "i4": np.dtype("<i4"),
    "u2": np.dtype("<u2"),
    "u1": np.dtype("u1"),
}

LEVEL = 6
"""Of zlib."""


def pack_floats(values: npt.ArrayLike) -> Packed:
    """Numbers with seven digits."""
    return _pack("f4", np.asarray(values))


def pack_sizes(values: npt.ArrayLike) -> Packed:
    """Sizes and addresses in bytes, whole up to 2^53."""
    return _pack("f8", np.asarray(values))


def pack_whole(values: npt.ArrayLike) -> Packed:
    """Whole numbers below 2^31, in as few bytes as they need."""
    array = np.asarray(values, np.int64)
    least, most = int(array.min(initial=0)), int(array.max(initial=0))
    if least < -(2**31) or most >= 2**31:
        raise ValueError(f"{least} to {most} are no 32-bit numbers")
    kind = "i4" if least < 0 or most >= 2**16 else "u2" if most >= 2**8 else "u1"
    return _pack(kind, array)


def pack_texts(texts: Sequence[str]) -> Packed:
    """Texts, printable as everywhere in a report."""
    encoded = json.dumps([printable(text) for text in texts], separators=(",", ":"))
    return {"type": "texts", "data": _encoded(encoded.encode())}


def _pack(kind: str, array: npt.NDArray[Any]) -> Packed:
    return {"type": kind, "data": _encoded(np.ascontiguousarray(array, _TYPES[kind]).tobytes())}


def _encoded(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, LEVEL)).decode("ascii")
