"""JSON: untrusted text within bounds, typed records of it, and the same bytes for the same data.

It is as the standard library indents it: hashes of folders hang on how it writes numbers, and
`msgspec` writes some otherwise (`0.00001` for `1e-05`). The library walks through indented data
piece by piece, in generators within generators; a program of many kernels is written here in less
than half the time, a list or object at once.

Text is parsed by the standard library, not by `msgspec`, which takes the last of two values of a
key, and readers need not agree on that. `json_records` has `msgspec` make records of what is found.

They are plain `int` and `float` to everyone else; nothing is checked where a record is made.

`msgspec` names places without keys of tables and one bound of a range at a time, and no value. What
a user reads here is the first part that does not fit, with its value and all that it may be.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from json.encoder import encode_basestring
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from mcm_compiler.diagnostics import quote

_STEP = "  "
"""Indentation of each level."""


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
    """Text of what is no list or object: finite numbers, and classes derived from plain ones."""
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


MAX_DEPTH = 32
"""Levels of objects and lists; the parser itself would go on until the stack ends."""

_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)
"""A string of JSON, ended or not, so that no text takes more than one look."""


class UnreadableError(Exception):
    """A file that cannot be read as what it should be; the text says why."""


def bytes_bounded(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file.

    Raises:
        UnreadableError: if it is anything else, or has more than `most_bytes`.
    """
    try:
        # A pipe without a writer would be waited for, and a device may never end.
        if path.exists() and not path.is_file():
            raise UnreadableError("it is not a regular file")
        with path.open("rb") as stream:
            data = stream.read(most_bytes + 1)
            size = max(os.fstat(stream.fileno()).st_size, len(data))
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "its name is not a path"
        raise UnreadableError(reason) from error
    if len(data) > most_bytes:
        raise UnreadableError(f"it has {size:,} bytes, more than {most_bytes:,}")
    return data


def read_bounded(path: Path, most_bytes: int) -> str:
    """The text of a regular file in UTF-8.

    Raises:
        UnreadableError: as `bytes_bounded`, and if it holds NUL or is in another encoding.
    """
    data = bytes_bounded(path, most_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"line {line} is not UTF-8 text") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UnreadableError(f"line {line} holds a NUL character")
    return text


def parse_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        UnreadableError: if it is not JSON, nested more than `MAX_DEPTH` deep, or holds NaN,
            infinity, a number of thousands of digits, or an object with a key twice.
    """
    if _depth(text) > MAX_DEPTH:
        raise UnreadableError(f"it is nested more than {MAX_DEPTH} deep")
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        reason = f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise UnreadableError(reason) from None
    except ValueError:
        # Python refuses to convert whole numbers of so many digits.
        raise UnreadableError("a number has too many digits") from None


def _refuse(constant: str) -> NoReturn:
    raise UnreadableError(f"it holds {constant}, which is no number of JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise UnreadableError(f"an object has the key {quote(twice)} twice")
    return found


def _depth(text: str) -> int:
    depth = most = 0
    for piece in _STRING.sub("", text).replace("{", "[").replace("}", "]").split("["):
        most = max(most, depth)
        depth += 1 - piece.count("]")
    return most


MAX_WHOLE = 2**53
"""Whole numbers beyond it are not the same in all readers of JSON."""

MAX_INDEX = 2**31 - 1

Whole = Annotated[int, Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]
"""A whole number that all readers of JSON take for the same."""

Size = Annotated[int, Meta(ge=0, le=MAX_WHOLE)]
"""Bytes, or the extent of a dimension."""

Extent = Annotated[int, Meta(ge=1, le=MAX_WHOLE)]
"""The extent of a dimension that is not empty."""

Count = Annotated[int, Meta(ge=1, le=MAX_INDEX)]
"""How many there are of what there is at least one of."""

Index = Annotated[int, Meta(ge=0, le=MAX_INDEX)]
"""A position from 0, such as a chip's."""

Place = Annotated[int, Meta(ge=-1, le=MAX_INDEX)]
"""A chip, or -1 for the host; likewise an index, or -1 for none."""

Endpoint = Annotated[int, Meta(ge=-2, le=MAX_INDEX)]
"""A chip, -1 for the host, or -2 for off-package memory."""

Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A seed of random numbers."""

Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
"""A finite number with space to calculate with it."""

Amount = Annotated[float, Meta(ge=0, le=1e100)]
"""A finite number that is not negative, such as a time or a cost."""


T = TypeVar("T")


def row_of(kind: Any, source: Any, **own: Any) -> Any:
    """The JSON object of a `TypedDict`, from an object with attributes of its names.

    Args:
        kind: the `TypedDict`; its keys give the order.
        source: what the values of all other keys are attributes of.
        own: values of keys that are no attribute, or another value than it.
    """
    found: dict[str, Any] = {}
    for key in kind.__annotations__:
        value = own[key] if key in own else getattr(source, key)
        found[key] = list(msgspec.to_builtins(value)) if isinstance(value, tuple) else value
    return found


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
"""JSON names of Python's types; others are objects."""


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
    """Describe `data`, which is at `place` and is no `kind`."""
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
    shown = f"{place} is {shown_value(data)}, not"
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


def shown_value(data: Any) -> str:
    """A value in a message: short, and printable whatever it is."""
    if isinstance(data, str):
        return quote(data[:40])
    if isinstance(data, int) and abs(data) > 10 * MAX_WHOLE:
        return "a number of very many digits"
    if isinstance(data, (list, dict)):
        return "a list" if isinstance(data, list) else "an object"
    return json.dumps(data) if isinstance(data, (int, float, NoneType)) else "a date"


def leaf_differences(
    place: str, theirs: Any, ours: Any, given: str = "the folder gives"
) -> Iterator[str]:
    """The places where two pieces of JSON differ.

    Args:
        place: where both are.
        theirs: what is stored.
        ours: what follows.
        given: what it follows from.
    """
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        left, right = cast("Mapping[str, Any]", ours), cast("Mapping[str, Any]", theirs)
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in right or key not in left:
                yield f"{place}.{key} is {'there' if key in right else 'missing'}"
            else:
                yield from leaf_differences(f"{place}.{key}", right[key], left[key], given)
        return
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        rows, stored = cast("Sequence[Any]", ours), cast("Sequence[Any]", theirs)
        if len(rows) != len(stored):
            yield f"{place} has {len(stored)} entries, {given} {len(rows)}"
        for index, (left, right) in enumerate(zip(rows, stored, strict=False)):
            yield from leaf_differences(f"{place}[{index}]", right, left, given)
        return
    if ours != theirs or isinstance(ours, bool) != isinstance(theirs, bool):
        yield f"{place} is {shown(theirs)}, {given} {shown(ours)}"


def shown(value: Any) -> str:
    """A leaf for a message."""
    return quote(repr(value)[:80]) if isinstance(value, str) else repr(value)[:80]
