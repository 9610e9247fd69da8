"""Which key was meant by one that does not exist: the same in another unit, or misspelt."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from mcm_hardware.descriptions.target_schema import unit_of

MAX_COMPARED = 100
"""Longer keys resemble no key."""

_UNIT = re.compile(
    r"_(?:(?:[kmgt]i?)?(?:b|bytes?|bits?)|[num]?s|min|[kmg]?hz)(?:_?per_?[num]?s|_s|ps)?$",
    re.IGNORECASE,
)


def nearest_key(path: str, known: Sequence[str]) -> tuple[str, str] | None:
    """The key that `path` was probably meant to be, and a hint; None where none is near.

    Args:
        path: dotted path of a key that does not exist.
        known: dotted paths of those that do.
    """
    if len(path) > MAX_COMPARED:
        return None
    table, _, leaf = path.rpartition(".")
    for key in known:
        in_table, _, right = key.rpartition(".")
        if unit_of(right) and in_table == table and _stem(right) == _stem(leaf):
            return key, f"write it as '{right}', in {unit_of(right)}"
    near = difflib.get_close_matches(path, known, n=1)
    if not near:
        by_leaf = {key.rpartition(".")[2]: key for key in reversed(known)}
        near = [by_leaf[match] for match in difflib.get_close_matches(leaf, by_leaf, n=1)]
    return (near[0], f"did you mean '{near[0]}'?") if near else None


def _stem(key: str) -> str:
    return _UNIT.sub("", key)
