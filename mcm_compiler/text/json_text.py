"""JSON with the same bytes for the same data.

It is the standard library's: hashes of folders hang on how it writes numbers, and `msgspec` writes
some otherwise (`0.00001` for `1e-05`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def dump(data: Any) -> str:
    """Indented JSON with keys in the order given, ending in a newline.

    Raises:
        ValueError: for NaN and infinity, which JSON does not have.
    """
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def encoded(data: Any) -> bytes:
    """`dump(data)` in UTF-8; lone surrogates from foreign names are escaped."""
    return dump(data).encode("utf-8", errors="backslashreplace")


def write(path: Path, data: Any) -> None:
    """Writes `encoded(data)`."""
    path.write_bytes(encoded(data))
