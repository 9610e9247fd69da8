"""Reads what a page packs, as its script does."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

DTYPES = {"f8": "<f8", "f4": "<f4", "i4": "<i4", "u2": "<u2", "u1": "u1"}


def unpacked(packed: Mapping[str, str]) -> Any:
    """The list of texts, or the array, of a packed value."""
    content = zlib.decompress(base64.b64decode(packed["data"]))
    if packed["type"] == "texts":
        return json.loads(content)
    return np.frombuffer(content, DTYPES[packed["type"]])
