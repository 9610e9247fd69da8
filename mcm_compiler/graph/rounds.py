"""Rounds: the names of the classes of inferences that one pipeline computes together."""

from __future__ import annotations

import re

MARK = "@"

_INDEX = re.compile("0|[1-9][0-9]{0,8}")
_CLASS = re.compile(rf"{MARK}(\d{{1,9}})(?![\w.])")
_TILE = re.compile(r"/tile_\d+(?![\w.])")


def class_name(name: str, index: int) -> str:
    """Name of an op, value, input or output in class `index` of a round."""
    return f"{name}{MARK}{index}"


def class_names(name: str, classes: int) -> list[str]:
    """Names in all classes of a round; the name itself where there is one class."""
    return [name] if classes == 1 else [class_name(name, index) for index in range(classes)]


def class_of(name: str) -> tuple[str, int] | None:
    """The name that `class_name` was given and the class, by the last '@'; None without one."""
    base, mark, index = name.rpartition(MARK)
    return (base, int(index)) if mark and _INDEX.fullmatch(index) else None


def class_in(name: str) -> int:
    """The class of an op, tensor or copy of one in the program of a round; 0 without a class."""
    found = _CLASS.findall(name)
    return int(found[-1]) if found else 0


def without_class(text: str, index: int) -> str:
    """A text about ops of class `index`, with their names as `class_name` was given them."""
    return re.sub(rf"{MARK}{index}(?![\w.{MARK}])", "", text)


def has_siblings(name: str) -> bool:
    """True for the name of a tile, or of a tensor of one class of a round."""
    return _CLASS.search(name) is not None or _TILE.search(name) is not None
