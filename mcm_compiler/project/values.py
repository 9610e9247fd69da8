"""Allowed values of a project file, and their types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from mcm_compiler.diagnostics import quote
from mcm_compiler.text.json_text import UnreadableError, record_of, shown_value
from mcm_compiler.text.units import SECONDS_OF, read_amount

_Size = Annotated[int, Meta(ge=0, le=2**62)]
"""Of a dimension; tensors of the largest one are refused by the importer, with numbers."""

_Chip = Annotated[int, Meta(ge=0, le=2**31 - 1)]

_BYTES_OF = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CODE = re.compile(r"[A-Z]+-[A-Z]+[0-9]{3}")


@dataclass(frozen=True)
class Rule:
    """Rule for the value of a key.

    Attributes:
        words: what it may be, for messages and the reference.
        read: gives what is meant, or raises `UnreadableError`, which says what it is and what is
            needed.
    """

    words: str
    read: Callable[[Any], Any]


def typed(words: str, kind: Any, made: Callable[[Any], Any] | None = None) -> Rule:
    """Values of a type.

    Args:
        words: as `Rule.words`.
        kind: as `record_of` takes it.
        made: gives what a value of that type means; None takes it as it is.
    """
    return Rule(words, lambda value: (made or _same)(record_of(value, kind)))


def whole(low: int, high: int) -> Rule:
    """A whole number."""
    return typed(f"a whole number of at least {low}", Annotated[int, Meta(ge=low, le=high)])


def folder_name(parts: int) -> Rule:
    """A name that becomes a folder below the output, of this many parts at most."""

    def read(value: Any) -> str:
        steps = _text(value).split("/")
        hidden = any(not step.strip() or step.startswith(".") or "\\" in step for step in steps)
        if hidden or len(steps) > parts:
            raise UnreadableError(f"{quote(value)} cannot be the name of a folder")
        return value

    return Rule("a name without dots in front" + (", or several with /" * (parts > 1)), read)


def texts(words: str = "a text, or a list of texts") -> Rule:
    """One text or several, none of them empty or twice."""

    def read(value: Any) -> tuple[str, ...]:
        given = record_of(value, list[Any]) if isinstance(value, list) else [value]
        listed = tuple(map(_text, given))
        if not listed:
            raise UnreadableError("the list is empty")
        twice = next((item for item in listed if listed.count(item) > 1), None)
        if twice is not None:
            raise UnreadableError(f"{quote(twice)} is listed twice")
        return listed

    return Rule(words, read)


def one_of(words: tuple[str, ...]) -> Rule:
    """One of a few words."""

    def read(value: Any) -> str:
        if value not in words:
            raise UnreadableError(f"{shown_value(value)} is not {' or '.join(map(quote, words))}")
        return value

    return Rule(" or ".join(f'"{word}"' for word in words), read)


def amount(units: Mapping[str, float], such_as: str) -> Rule:
    """A number with its unit, as a text."""

    def read(value: Any) -> float:
        number = read_amount(value, units)
        if number is None:
            raise UnreadableError(f"{shown_value(value)} is not a text such as {such_as!r}")
        if not 0 < number < math.inf:
            raise UnreadableError(f"{shown_value(value)} is not more than nothing")
        return number

    return Rule(f'a text such as "{such_as}"', read)


def share(below: float) -> Rule:
    """A percentage as a share, less than `below`."""
    known = amount({"%": 1.0}, "3 %")

    def read(value: Any) -> float:
        # Nothing at all is a share, though no amount of time or memory.
        found = 0.0 if value in ("0%", "0 %") else known.read(value) / 100
        if found >= below:
            raise UnreadableError(f"{shown_value(value)} is not below {100 * below:.0f} %")
        return found

    return Rule(known.words, read)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UnreadableError(f"{shown_value(value)} is not a text")
    if "\0" in value:
        raise UnreadableError(f"{shown_value(value)} holds a zero byte")
    return value


def _level(value: Any) -> int | str:
    return _text(value) if isinstance(value, str) else whole(0, 1_000).read(value)


def _levels(given: list[Any]) -> tuple[int | str, ...]:
    found = tuple(map(_level, given))
    if not found or len(set(map(str, found))) < len(found):
        raise UnreadableError("the list is empty, or lists a level twice")
    return found


def _rate(value: float) -> float:
    if not 0 < value < math.inf:
        raise UnreadableError(f"{shown_value(value)} is not more than nothing")
    return value


def _durations(given: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, item in given.items():
        try:
            found[name] = DURATION.read(item)
        except UnreadableError as error:
            raise UnreadableError(f"{quote(name)}: {error}") from None
    return found


def _pairs(found: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    for names in zip(*found, strict=True):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UnreadableError(f"{quote(twice)} is in two pairs")
        if "" in names:
            raise UnreadableError("a pair of two names is needed, and one is empty")
    return tuple(found)


def _code(value: str) -> str:
    if not _CODE.fullmatch(value):
        raise UnreadableError(f"{quote(value)} is not a code such as 'MCM-P016'")
    return value


def _same(value: Any) -> Any:
    return value


TEXT = Rule("a text", _text)
FLAG = typed("true or false", bool)
LEVEL = Rule("a number, a name, or the path of a description", _level)
LEVELS = typed("a list of levels", list[Any], _levels)
DURATION = amount(SECONDS_OF, "500 us")
SIZE = Rule('a text such as "2 GiB"', lambda value: int(amount(_BYTES_OF, "2 GiB").read(value)))
RATE = typed("a number of inferences per second", float, _rate)
SIZES = typed("a table of sizes by name", dict[str, _Size])
DURATIONS = typed("a table of durations by name", dict[str, Any], _durations)
SHAPES = typed("a table of lists of sizes by input", dict[str, tuple[_Size, ...]])
PINS = typed(
    "a table of chips by name or pattern of ops",
    dict[str, _Chip],
    lambda given: tuple(given.items()),
)
CHIPS = typed("a list of places of chips", list[_Chip], lambda given: tuple(sorted({*given})))
PAIRS = typed('a list of pairs such as [["past", "present"]]', list[tuple[str, str]], _pairs)
CODE = typed('a code such as "MCM-P016"', str, _code)
