"""Text for people: numbers with units, and names made safe to print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

UNKNOWN = "-"
"""Stands where the pipeline computed nothing."""

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_JOULES = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"), (1e-9, "nJ"), (1e-12, "pJ"))
_BYTES = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


SECONDS_OF = {**{unit: scale for scale, unit in _SECONDS}, "m": 60.0, "min": 60.0, "h": 3600.0}
"""Seconds of each unit that people write."""

_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z%]*)\s*")


def read_amount(text: object, units: Mapping[str, float]) -> float | None:
    """The amount that a text such as `500 us` gives; None for anything else.

    Args:
        text: as somebody wrote it.
        units: known ones, with the amount of one of each.
    """
    found = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[2] not in units:
        return None
    return float(found[1]) * units[found[2]]


def read_percentage(text: object) -> float | None:
    """The share that a text such as `35 %` gives, here 0.35; None for anything else."""
    percent = read_amount(text, {"%": 1.0})
    return None if percent is None else percent / 100


def seconds_text(seconds: float | None) -> str:
    """Such as `123 us` or `4.10 ms`."""
    if seconds is None:
        return UNKNOWN
    return _scaled(seconds, _SECONDS)


def energy_text(joules: float | None) -> str:
    """Such as `14.2 mJ`."""
    if joules is None:
        return UNKNOWN
    return _scaled(joules, _JOULES)


def _scaled(value: float, scales: Sequence[tuple[float, str]]) -> str:
    """In the largest unit of which there is one at least; in the first where there is none."""
    for scale, unit in scales:
        # 999.6 us rounds to 1000 us, which reads better as 1.00 ms.
        if abs(value) >= scale * 0.9995:
            return f"{_three_digits(value / scale)} {unit}"
    unit = scales[0][1]
    return f"0 {unit}" if value == 0 else f"{value:.3g} {unit}"


def bytes_text(size_bytes: float | None) -> str:
    """Such as `512 B`, `41.2 MiB`."""
    if size_bytes is None:
        return UNKNOWN
    for scale, unit in _BYTES:
        if size_bytes >= scale * 0.9995:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def rate_text(per_s: float | None) -> str:
    """Such as `8,124 inferences/s`."""
    return UNKNOWN if per_s is None else f"{number_text(per_s)} inferences/s"


def number_text(number: float) -> str:
    """Such as `8,124` or `41.2`."""
    return f"{number:,.0f}" if number >= 1000 else _three_digits(number)


def percent_text(share: float | None) -> str:
    """Such as `87.2 %` for 0.872."""
    return UNKNOWN if share is None else f"{100 * share:z.1f} %"


def count_text(count: int | None, singular: str, plural: str | None = None) -> str:
    """Such as `1 op` or `2,115 ops`."""
    if count is None:
        return f"{UNKNOWN} {plural or singular + 's'}"
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def _three_digits(number: float) -> str:
    size = abs(number)
    if size >= 99.95:
        return f"{number:.0f}"
    if size >= 9.995:
        return f"{number:.1f}"
    return f"{number:.2f}" if size >= 0.01 or size == 0 else f"{number:.3g}"


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


_ACTIVE = re.compile(r"([\\`*_{}\[\]<>|#&~!])")


def escaped(text: str) -> str:
    """`text` with everything that Markdown or HTML would act on escaped."""
    return _ACTIVE.sub(r"\\\1", text)
