"""Allowed values of a project file, and their types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import SECONDS_OF, read_amount

MAX_SIZE = 2**62
"""Of a dimension; tensors of that size are refused by the importer, with numbers."""

MAX_LISTED = 10_000
"""Elements of a list or table."""

_BYTES_OF = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CODE = re.compile(r"[A-Z]+-[A-Z]+[0-9]{3}")


class UnfitError(ValueError):
    """A value is not what its key needs; the message says what it is and what is needed."""


@dataclass(frozen=True)
class Rule:
    """Rule for the value of a key.

    Attributes:
        words: what it may be, for messages and the reference.
        read: gives what is meant, or raises `UnfitError`.
    """

    words: str
    read: Callable[[Any], Any]


def text() -> Rule:
    """A text that is not empty."""
    return Rule("a text", _text)


def folder_name(parts: int) -> Rule:
    """A name that becomes a folder below the output, of this many parts at most."""

    def read(value: Any) -> str:
        steps = _text(value).split("/")
        hidden = any(not step.strip() or step.startswith(".") or "\\" in step for step in steps)
        if hidden or len(steps) > parts:
            raise UnfitError(f"{_shown(value)} cannot be the name of a folder")
        return value

    return Rule("a name without dots in front" + (", or several with /" * (parts > 1)), read)


def texts(words: str = "a text, or a list of texts") -> Rule:
    """One text or several, none of them empty or twice."""

    def read(value: Any) -> tuple[str, ...]:
        listed = tuple(_text(item) for item in _list(value)) if _is_list(value) else (_text(value),)
        if not listed:
            raise UnfitError("the list is empty")
        twice = next((item for item in listed if listed.count(item) > 1), None)
        if twice is not None:
            raise UnfitError(f"{quote(twice)} is listed twice")
        return listed

    return Rule(words, read)


def whole(low: int, high: int) -> Rule:
    """A whole number."""
    return Rule(f"a whole number of at least {low}", lambda value: _whole(value, low, high))


def flag() -> Rule:
    """True or false."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise UnfitError(f"{_shown(value)} is not true or false")
        return value

    return Rule("true or false", read)


def level() -> Rule:
    """The number, name or path of a level."""
    return Rule("a number, a name, or the path of a description", _level)


def levels() -> Rule:
    """Several of them."""

    def read(value: Any) -> tuple[int | str, ...]:
        found = tuple(_level(item) for item in _list(value))
        if not found or len(set(map(str, found))) < len(found):
            raise UnfitError("the list is empty, or lists a level twice")
        return found

    return Rule("a list of levels", read)


def one_of(words: tuple[str, ...]) -> Rule:
    """One of a few words."""

    def read(value: Any) -> str:
        if value not in words:
            raise UnfitError(f"{_shown(value)} is not {' or '.join(map(quote, words))}")
        return value

    return Rule(" or ".join(f'"{word}"' for word in words), read)


def amount(units: Mapping[str, float], such_as: str) -> Rule:
    """A number with its unit, as a text."""

    def read(value: Any) -> float:
        number = read_amount(value, units)
        if number is None:
            raise UnfitError(f"{_shown(value)} is not a text such as {such_as!r}")
        if not 0 < number < math.inf:
            raise UnfitError(f"{_shown(value)} is not more than nothing")
        return number

    return Rule(f'a text such as "{such_as}"', read)


def duration() -> Rule:
    """Seconds."""
    return amount(SECONDS_OF, "500 us")


def size() -> Rule:
    """Bytes."""
    known = amount(_BYTES_OF, "2 GiB")
    return Rule(known.words, lambda value: int(known.read(value)))


def share(below: float) -> Rule:
    """A percentage as a share, less than `below`."""
    known = amount({"%": 1.0}, "3 %")

    def read(value: Any) -> float:
        # Nothing at all is a share, though no amount of time or memory.
        found = 0.0 if value in ("0%", "0 %") else known.read(value) / 100
        if found >= below:
            raise UnfitError(f"{_shown(value)} is not below {100 * below:.0f} %")
        return found

    return Rule(known.words, read)


def rate() -> Rule:
    """Inferences per second."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnfitError(f"{_shown(value)} is not a number of inferences per second")
        if not 0 < value < math.inf:
            raise UnfitError(f"{_shown(value)} is not more than nothing")
        return float(value)

    return Rule("a number of inferences per second", read)


def sizes() -> Rule:
    """A size for each name."""

    def read(value: Any) -> dict[str, int]:
        return {
            name: _named(name, _whole, item, 0, MAX_SIZE) for name, item in _table(value).items()
        }

    return Rule("a table of sizes by name", read)


def durations() -> Rule:
    """Seconds for each name."""
    known = duration()

    def read(value: Any) -> dict[str, float]:
        return {name: _named(name, known.read, item) for name, item in _table(value).items()}

    return Rule("a table of durations by name", read)


def shapes() -> Rule:
    """A shape for each name."""

    def shape(value: Any) -> tuple[int, ...]:
        return tuple(_whole(item, 0, MAX_SIZE) for item in _list(value))

    def read(value: Any) -> dict[str, tuple[int, ...]]:
        return {name: _named(name, shape, item) for name, item in _table(value).items()}

    return Rule("a table of lists of sizes by input", read)


def pins() -> Rule:
    """A chip for each name or pattern."""

    def read(value: Any) -> tuple[tuple[str, int], ...]:
        items = _table(value).items()
        return tuple((name, _named(name, _whole, chip, 0, 2**31 - 1)) for name, chip in items)

    return Rule("a table of chips by name or pattern of ops", read)


def chips() -> Rule:
    """Places of chips."""

    def read(value: Any) -> tuple[int, ...]:
        return tuple(sorted({_whole(item, 0, 2**31 - 1) for item in _list(value)}))

    return Rule("a list of places of chips", read)


def pairs() -> Rule:
    """Pairs of two names, of which no first and no second one comes twice."""
    words = 'a list of pairs such as [["past", "present"]]'

    def read(value: Any) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        for item in _list(value):
            pair = item if _is_list(item) else ()
            if len(pair) != 2 or not all(isinstance(name, str) and name for name in pair):
                raise UnfitError(f"a pair of two names is needed, not {_shown(item)}")
            found.append((pair[0], pair[1]))
        for names in zip(*found, strict=True) if found else ():
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise UnfitError(f"{quote(twice)} is in two pairs")
        return tuple(found)

    return Rule(words, read)


def code() -> Rule:
    """The code of a diagnostic."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not _CODE.fullmatch(value):
            raise UnfitError(f"{_shown(value)} is not a code such as 'MCM-P016'")
        return value

    return Rule('a code such as "MCM-P016"', read)


def _named(name: str, read: Callable[..., Any], *arguments: Any) -> Any:
    """Return what `read` gives, with the name in its message about a value that does not fit."""
    try:
        return read(*arguments)
    except UnfitError as error:
        raise UnfitError(f"{quote(name)}: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UnfitError(f"{_shown(value)} is not a text")
    if "\0" in value:
        raise UnfitError(f"{_shown(value)} holds a zero byte")
    return value


def _level(value: Any) -> int | str:
    if isinstance(value, str):
        return _text(value)
    return _whole(value, 0, 1_000)


def _whole(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnfitError(f"{_shown(value)} is not a whole number")
    if not low <= value <= high:
        raise UnfitError(f"{_shown(value)} is not from {low} to {high}")
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UnfitError(f"{_shown(value)} is not a list")
    listed = cast("list[Any]", value)
    if len(listed) > MAX_LISTED:
        raise UnfitError(f"a list of {len(listed)} is longer than {MAX_LISTED}")
    return listed


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnfitError(f"{_shown(value)} is not a table")
    return cast("dict[str, Any]", value)


def _shown(value: Any) -> str:
    """A value in a message: short, and printable whatever it is."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value) if abs(value) < 10**18 else "a number of very many digits"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    return "a date"
