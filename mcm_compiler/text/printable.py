"""Making a report safe to print: its names come from models, and stored reports from anywhere."""

from __future__ import annotations

from typing import Any, cast


def printable(text: str) -> str:
    """`text` with control characters, bidirectional marks and lone surrogates escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def printable_data(data: Any) -> Any:
    """A copy of JSON-able `data` in which every string, keys included, is `printable`."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, dict):
        pairs = cast("dict[str, Any]", data).items()
        return {printable(str(key)): printable_data(value) for key, value in pairs}
    if isinstance(data, list):
        return [printable_data(item) for item in cast("list[Any]", data)]
    return data
