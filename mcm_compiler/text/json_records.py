"""Typed records from JSON that was parsed: `msgspec` decides, and this says where and why not.

`msgspec` names places without keys of tables and one bound of a range at a time, and no value; what
a user reads here is the first part that does not fit, with its value and all that it may be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import repeat
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from mcm_compiler.diagnostics import quote
from mcm_compiler.text.bounded_json import UnreadableError
from mcm_compiler.text.bounded_numbers import MAX_WHOLE

T = TypeVar("T")

_MISFIT = (msgspec.ValidationError, UnicodeEncodeError)
"""The latter for lone surrogates, where one of a few words or keys is wanted."""

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    tuple: "a list",
}
"""What JSON calls the values of Python's types; others are objects."""


class OutOfRangeError(UnreadableError):
    """An amount that is a number, but too small or too large."""


def record_of(data: Any, kind: type[T], place: str = "") -> T:
    """The record that JSON data stand for.

    Keys that it does not have are not looked at, unless it is a `Struct` that forbids them.

    Args:
        data: as `parse_json` gives it.
        kind: a dataclass, a `msgspec.Struct`, or a list or table of such.
        place: of the data, where they are a part of a file.

    Raises:
        UnreadableError: names the first part of the data that does not fit; `OutOfRangeError` where
            that is an amount of a wrong size, a number that need not be whole.
    """
    try:
        return msgspec.convert(data, kind)
    except _MISFIT:
        raise _misfit(data, kind, place) from None


def _misfit(data: Any, kind: Any, place: str) -> UnreadableError:
    """What is wrong with `data`, which stands at `place` and is no `kind`."""
    bare, bounds = _bare(kind)
    for step, part, part_kind in _parts(data, bare):
        try:
            msgspec.convert(part, part_kind)
        except _MISFIT:
            return _misfit(part, part_kind, f"{place}{step}".removeprefix("."))
    if isinstance(data, dict) and _is_record(bare):
        known = {f.encode_name: f.required for f in _fields(bare)}
        lost = [key for key, required in known.items() if required and key not in data]
        if lost:
            return UnreadableError(f"{place}.{lost[0]} is missing".removeprefix("."))
        unknown = [key for key in cast("dict[str, Any]", data) if key not in known]
        told = f"has the unknown key {quote(unknown[0])}" if unknown else "contradicts itself"
        return UnreadableError(f"{place or 'it'} {told}")
    place = place or "it"
    shown = f"{place} is {_shown(data)}, not"
    number = isinstance(data, int if bare is int else (int, float)) and not isinstance(data, bool)
    if bounds is None or not number:
        return UnreadableError(f"{shown} {_wanted(bare)}")
    fault = OutOfRangeError if bare is float else UnreadableError
    return fault(f"{shown} from {bounds.ge} to {bounds.le}")


def _bare(kind: Any) -> tuple[Any, msgspec.Meta | None]:
    """A type without `| None` and the like, and its bounds."""
    if get_origin(kind) is Annotated:
        return get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        solid = [one for one in get_args(kind) if one is not NoneType]
        return _bare(solid[0]) if len(solid) == 1 else (kind, None)
    return kind, None


def _parts(data: Any, bare: Any) -> Iterable[tuple[str, Any, Any]]:
    """Step to it, value and type of each part of `data` that a `bare` has."""
    kinds = get_args(bare)
    if isinstance(data, dict) and _is_record(bare):
        hints = get_type_hints(bare, include_extras=True)
        keys = [(f.encode_name, hints[f.name]) for f in _fields(bare) if f.encode_name in data]
        return [(f".{key}", data[key], kind) for key, kind in keys]
    if isinstance(data, dict) and get_origin(bare) in (dict, Mapping):
        items = cast("dict[str, Any]", data).items()
        return ((f"[{quote(key)}]", item, kinds[1]) for key, item in items)
    if isinstance(data, list) and get_origin(bare) in (list, tuple):
        fixed = get_origin(bare) is tuple and ... not in kinds
        each = zip(cast("list[Any]", data), kinds if fixed else repeat(kinds[0]), strict=False)
        return ((f"[{i}]", *pair) for i, pair in enumerate(each))
    return ()


def _is_record(bare: Any) -> bool:
    return hasattr(bare, "__dataclass_fields__") or hasattr(bare, "__struct_fields__")


def _fields(record: type) -> tuple[msgspec.inspect.Field, ...]:
    return cast("msgspec.inspect.DataclassType", msgspec.inspect.type_info(record)).fields


def _wanted(bare: Any) -> str:
    kinds = get_args(bare)
    if get_origin(bare) is Literal:
        return f"one of {', '.join(map(str, kinds))}"
    if get_origin(bare) is tuple and ... not in kinds:
        return f"a list of {len(kinds)}"
    if get_origin(bare) in (Union, UnionType):
        return " or ".join(map(_wanted, kinds))
    return _WORDS.get(get_origin(bare) or bare, "an object")


def _shown(data: Any) -> str:
    """A value in a message: short, and printable whatever it is."""
    if isinstance(data, str):
        return quote(data[:40])
    if isinstance(data, int) and abs(data) > 10 * MAX_WHOLE:
        return "a number of very many digits"
    if isinstance(data, (list, dict)):
        return "a list" if isinstance(data, list) else "an object"
    return json.dumps(data)
