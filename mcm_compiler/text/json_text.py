"""JSON with the same bytes for the same data.

It is as the standard library indents it: hashes of folders hang on how it writes numbers, and
`msgspec` writes some otherwise (`0.00001` for `1e-05`). The library walks through indented data
piece by piece, in generators within generators; a program of many kernels is written here in less
than half the time, a list or object at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any

_STEP = "  "
"""What each level is indented by."""


def dump(data: Any) -> str:
    """Indented JSON with keys in the order given, ending in a newline.

    Raises:
        ValueError: for NaN and infinity, which JSON does not have.
        TypeError: for what JSON has no form of.
    """
    return _text(data, "\n") + "\n"


def encoded(data: Any) -> bytes:
    """`dump(data)` in UTF-8; lone surrogates from foreign names are escaped."""
    return dump(data).encode("utf-8", errors="backslashreplace")


def write(path: Path, data: Any) -> None:
    """Writes `encoded(data)`."""
    path.write_bytes(encoded(data))


def _text(data: Any, margin: str) -> str:
    """`data` as JSON.

    Args:
        data: anything that JSON has a form of.
        margin: the line break and the indentation of the line that the text begins in.
    """
    inner, plain = margin + _STEP, _PLAIN
    if isinstance(data, dict):
        fields: Mapping[Any, Any] = data
        lines = [
            f"{encode_basestring(key) if type(key) is str else _key(key)}: "
            f"{write(item) if (write := plain.get(type(item))) else _text(item, inner)}"
            for key, item in fields.items()
        ]
        return f"{{{inner}{f',{inner}'.join(lines)}{margin}}}" if lines else "{}"
    if isinstance(data, list | tuple):
        items: Sequence[Any] = data
        lines = [
            write(item) if (write := plain.get(type(item))) else _text(item, inner)
            for item in items
        ]
        return f"[{inner}{f',{inner}'.join(lines)}{margin}]" if lines else "[]"
    return _other(data)


def _other(data: Any) -> str:
    """What is no list or object: finite numbers, and classes derived from plain ones."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def _key(key: Any) -> str:
    """A key that is not simply a text, as the text that stands for it."""
    if isinstance(key, str):
        return encode_basestring(key)
    if key is None or isinstance(key, int | float):
        return f'"{_other(key)}"'
    raise TypeError(f"keys must be text, numbers or None, not {type(key).__name__}")


def _float(number: float) -> str:
    # Neither NaN nor infinity is equal to itself less itself.
    return repr(number) if number - number == 0.0 else _other(number)


_PLAIN: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    int: int.__repr__,
    float: _float,
    bool: {False: "false", True: "true"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
"""Writers of what nearly all data consists of, by type."""
