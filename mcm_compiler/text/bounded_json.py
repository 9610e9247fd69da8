"""Untrusted JSON: bounded in size and depth, without NaN, and no key twice.

Text is parsed by the standard library, not by `msgspec`, which takes the last of two values of a
key, and readers need not agree on that; `json_records` has `msgspec` make records of what is found.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from mcm_compiler.diagnostics import quote

MAX_DEPTH = 32
"""Levels of objects and lists; the parser itself would go on until the stack ends."""

_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)
"""A string of JSON, ended or not, so that no text takes more than one look."""


class UnreadableError(Exception):
    """A file that cannot be read as what it should be; the text says why."""


def read_bounded(path: Path, most_bytes: int) -> str:
    """The text of a regular file in UTF-8.

    Raises:
        UnreadableError: if it is anything else, has more than `most_bytes`, or holds NUL.
    """
    try:
        # A pipe without a writer would be waited for, and a device may never end.
        if path.exists() and not path.is_file():
            raise UnreadableError("it is not a regular file")
        with path.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "its name is not a path"
        raise UnreadableError(reason) from error
    if len(data) > most_bytes:
        raise UnreadableError(f"it has more than {most_bytes:,} bytes")
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
