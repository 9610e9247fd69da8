"""What a JSON file has to look like before anything is made of it: kinds of values and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from mcm_compiler.diagnostics import quote

MAX_WHOLE = 2**53
"""Whole numbers beyond it are not the same in all readers of JSON."""


class Shape(Protocol):
    """A kind of JSON value."""

    def fault(self, data: Any, place: str) -> str | None:
        """What is wrong with `data`, which stands at `place`; None where nothing is."""
        ...


@dataclass(frozen=True)
class Text:
    """A string; one of `choices`, where there are some."""

    choices: tuple[str, ...] = ()

    def fault(self, data: Any, place: str) -> str | None:
        if not isinstance(data, str):
            return f"{place} is {_shown(data)}, not a text"
        if self.choices and data not in self.choices:
            return f"{place} is {quote(data)}, not one of {', '.join(self.choices)}"
        return None


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def fault(self, data: Any, place: str) -> str | None:
        return None if isinstance(data, bool) else f"{place} is {_shown(data)}, not true or false"


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`."""

    least: int = -MAX_WHOLE
    most: int = MAX_WHOLE

    def fault(self, data: Any, place: str) -> str | None:
        if not isinstance(data, int) or isinstance(data, bool):
            return f"{place} is {_shown(data)}, not a whole number"
        if not self.least <= data <= self.most:
            return f"{place} is {_shown(data)}, not from {self.least} to {self.most}"
        return None


@dataclass(frozen=True)
class Number:
    """A finite number whose size is at most `most`."""

    most: float = 1e100

    def fault(self, data: Any, place: str) -> str | None:
        if not isinstance(data, (int, float)) or isinstance(data, bool):
            return f"{place} is {_shown(data)}, not a number"
        # Whole numbers may be too large for a float.
        if isinstance(data, float) and not math.isfinite(data):
            return f"{place} is {data}, not a finite number"
        if not -self.most <= data <= self.most:
            return f"{place} is {_shown(data)}, more than {self.most:g}"
        return None


@dataclass(frozen=True)
class Maybe:
    """Null, or what `item` is."""

    item: Shape

    def fault(self, data: Any, place: str) -> str | None:
        return None if data is None else self.item.fault(data, place)


@dataclass(frozen=True)
class ListOf:
    """A list of `item`s."""

    item: Shape

    def fault(self, data: Any, place: str) -> str | None:
        if not isinstance(data, list):
            return f"{place} is {_shown(data)}, not a list"
        items = cast("list[Any]", data)
        found = (self.item.fault(item, f"{place}[{i}]") for i, item in enumerate(items))
        return next(filter(None, found), None)


@dataclass(frozen=True)
class Pair:
    """A list of two."""

    first: Shape
    second: Shape

    def fault(self, data: Any, place: str) -> str | None:
        if not isinstance(data, list) or len(cast("Sequence[Any]", data)) != 2:
            return f"{place} is {_shown(data)}, not a list of two"
        first, second = cast("Sequence[Any]", data)
        return self.first.fault(first, f"{place}[0]") or self.second.fault(second, f"{place}[1]")


@dataclass(frozen=True)
class Table:
    """An object with any keys and `item`s as values."""

    item: Shape

    def fault(self, data: Any, place: str) -> str | None:
        if not isinstance(data, dict):
            return f"{place} is {_shown(data)}, not an object"
        items = cast("dict[str, Any]", data).items()
        found = (self.item.fault(item, f"{place}[{quote(key)}]") for key, item in items)
        return next(filter(None, found), None)


@dataclass(frozen=True)
class Record:
    """An object with these keys; further ones are not looked at.

    Attributes:
        fields: keys that have to be there.
        optional: keys that need not be there, because earlier releases did not write them.
    """

    fields: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict[str, Shape])

    def fault(self, data: Any, place: str) -> str | None:
        if not isinstance(data, dict):
            return f"{place} is {_shown(data)}, not an object"
        items = cast("dict[str, Any]", data)
        dot = f"{place}." if place else ""
        for key, shape in self.fields.items():
            if key not in items:
                return f"{dot}{key} is missing"
            if (fault := shape.fault(items[key], dot + key)) is not None:
                return fault
        for key, shape in self.optional.items():
            if key in items and (fault := shape.fault(items[key], dot + key)) is not None:
                return fault
        return None


def _shown(data: Any) -> str:
    """A value in a message: short, and printable whatever it is."""
    if isinstance(data, (list, dict)):
        return "a list" if isinstance(data, list) else "an object"
    if data is None or isinstance(data, bool):
        return {None: "null", True: "true", False: "false"}[data]
    if isinstance(data, str):
        return quote(data[:40])
    if isinstance(data, int) and abs(data) > 10 * MAX_WHOLE:
        return "a number of very many digits"
    return str(data)
