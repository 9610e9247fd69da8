"""Tables as TOML, without comments: what `tomllib` reads from it is what was written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(table: Mapping[str, Any]) -> str:
    """A table as TOML text; equal tables in equal order give equal text.

    Args:
        table: of texts, booleans, numbers, lists of these, tables, and lists of tables.

    Raises:
        TypeError: for a value of another kind, such as a date.
    """
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[str]:
    inner = [key for key, value in table.items() if isinstance(value, Mapping) or _tables(value)]
    for key, value in table.items():
        if key not in inner:
            yield f"{_key(key)} = {_value(value)}"
    for key in inner:
        path, value = (*at, key), table[key]
        heading = ".".join(map(_key, path))
        if isinstance(value, Mapping):
            yield ""
            yield f"[{heading}]"
            yield from _lines(cast("Mapping[str, Any]", value), path)
            continue
        for one in value:
            yield ""
            yield f"[[{heading}]]"
            yield from _lines(one, path)


def _tables(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, Mapping) for one in cast("list[object]", value))
    )


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('list[object]', value)))}]"
    if isinstance(value, Mapping):
        rows = cast("Mapping[str, object]", value).items()
        return f"{{{', '.join(f'{_key(key)} = {_value(one)}' for key, one in rows)}}}"
    raise TypeError(f"{type(value).__name__} has no form in TOML here")
