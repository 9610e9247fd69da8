"""Untrusted descriptions in TOML: bounded in size, with the line of every key."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote

MAX_DESCRIPTION_BYTES = 1 << 18
"""A package of 4096 chips that all differ has half as much."""

MAX_DEPTH = 32
"""Levels of tables and arrays. The parser takes quadratic time in the parts of a dotted key."""

_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")
_AT_LINE = re.compile(r"\(?at line (\d+), column \d+\)?")
_LONG_NUMBER = re.compile(r"[0-9_]{4300,}")


@dataclass(frozen=True)
class TomlDescription:
    """A description that was read.

    Attributes:
        name: of the file or target, for the place in diagnostics.
        text: its text.
        data: its values.
    """

    name: str
    text: str
    data: Mapping[str, Any]

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return key_lines(self.text)

    def place(self, path: KeyPath) -> str:
        """Where a key stands, `file:line: 'table.key'`; of a missing key, where its table stands.

        Args:
            path: keys from the top of the file; elements of arrays by index.
        """
        keys = ".".join(part for part in path if isinstance(part, str))
        shown = quote(keys + "".join(f"[{index}]" for index in self._entry(path)))
        line = self.line(path)
        return f"{self.name}:{line}: {shown}" if line else f"{self.name}: {shown}"

    def _entry(self, path: KeyPath) -> list[int]:
        """The place of an entry of a list, which has no line of its own as tables do."""
        found: list[int] = []
        value: Any = self.data
        for part in path:
            inside = isinstance(value, list) if isinstance(part, int) else isinstance(value, dict)
            try:
                value = value[part] if inside else None
            except (KeyError, IndexError):
                value = None
            found = [*found, part] if inside and isinstance(part, int) else []
        return [] if isinstance(value, dict) else found

    def line(self, path: KeyPath) -> int:
        """Line of a key, or of the nearest table around it that is there; 0 where none is."""
        known = (self._lines.get(path[:depth]) for depth in range(len(path), 0, -1))
        return next((number for number in known if number is not None), 0)


def read_description(path: str, kind: str = "target") -> str:
    """The text of a description file.

    Args:
        path: of the file.
        kind: what it describes, for messages.

    Raises:
        CompileError: MCM-T001 if it is no regular file, too large, not UTF-8 or unreadable.
    """
    from mcm_compiler.text.json_text import UnreadableError, bytes_bounded

    message = f"the {kind} file cannot be read"
    try:
        data = bytes_bounded(Path(path), MAX_DESCRIPTION_BYTES)
    except UnreadableError as error:
        hint = f"give the path of a {kind} file that can be read"
        raise CompileError.of("MCM-T001", f"{message}: {error}", at=path, hint=hint) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CompileError.of(
            "MCM-T001", f"{message}: it is not UTF-8 text", at=f"{path}:{line}"
        ) from error


def parse_description(name: str, text: str, kind: str = "target") -> TomlDescription:
    """Parses a description, in time and memory that its size bounds.

    Args:
        name: of the file or target, for the place in diagnostics.
        text: the description.
        kind: what it describes, for messages.

    Raises:
        CompileError: MCM-T001 if it is not TOML, too large, or nested more than `MAX_DEPTH` deep.
    """
    if len(text) > MAX_DESCRIPTION_BYTES:
        raise CompileError(
            _not_toml(name, f"it has more than {MAX_DESCRIPTION_BYTES} characters", kind)
        )
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MAX_DEPTH and _dots_of_keys(line) > MAX_DEPTH:
            reason = f"keys have more than {MAX_DEPTH} parts"
            raise CompileError(_not_toml(f"{name}:{number}", reason, kind))
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise CompileError(_too_deep(name, text, kind)) from None
    except ValueError as error:
        raise CompileError(_syntax_fault(name, text, str(error), kind)) from None
    if _depth(data) > MAX_DEPTH:
        raise CompileError(_too_deep(name, text, kind))
    return TomlDescription(name, text, data)


def _dots_of_keys(line: str) -> int:
    return _QUOTED.sub("", line).partition("#")[0].count(".")


def _depth(data: Any) -> int:
    depth, level = 0, [data]
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if depth > MAX_DEPTH:
            break
    return depth


def _too_deep(name: str, text: str, kind: str) -> Diagnostic:
    openings = [line.count("[") + line.count("{") for line in text.split("\n")]
    line = openings.index(max(openings)) + 1
    return _not_toml(f"{name}:{line}", "it is nested too deep", kind)


def _syntax_fault(name: str, text: str, reason: str, kind: str) -> Diagnostic:
    place = _AT_LINE.search(reason)
    if place is not None:
        return _not_toml(f"{name}:{place.group(1)}", quote(reason)[1:-1], kind)
    if "end of document" in reason:
        return _not_toml(f"{name}:{text.count(chr(10)) + 1}", quote(reason)[1:-1], kind)
    # Python refuses to convert numbers of so many digits, and does not say where they stand.
    if number := _LONG_NUMBER.search(text):
        line = text.count("\n", 0, number.start()) + 1
        return _not_toml(f"{name}:{line}", "a number has too many digits", kind)
    return _not_toml(name, quote(reason)[1:-1], kind)


def _not_toml(place: str, reason: str, kind: str) -> Diagnostic:
    return Diagnostic("MCM-T001", f"the {kind} description is not TOML: {reason}", at=place)


KeyPath = tuple[str | int, ...]
"""Keys from the top of the file; elements of an array by their index."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY_PART = re.compile(
    r"[ \t]*(?:(?P<bare>[A-Za-z0-9_-]+)"
    r"|\"(?P<basic>(?:[^\"\\\n]|\\[^\n])*)\"|'(?P<literal>[^'\n]*)')[ \t]*"
)
_SCALAR = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^,\]}#\r\n]+",
    re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line, from 1, where each key and table of `text` first stands.

    Args:
        text: valid TOML that is nested `toml_description.MAX_DEPTH` deep at most.
    """
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.statement_at = 0
        self.line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.lines: dict[KeyPath, int] = {}
        self.elements: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._skip_blank():
            self.statement_at = self.at
            if self.text.startswith("[[", self.at):
                table = self._array_header()
            elif self.text[self.at] == "[":
                self.at += 1
                table = self._named((), self._key())
                self.at += 1
            else:
                self._assignment(table)
        return self.lines

    def _skip_blank(self) -> bool:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def _array_header(self) -> KeyPath:
        self.at += 2
        *above, last = self._key()
        self.at += 2
        path = (*self._named((), above), last)
        index = self.elements.get(path, 0)
        self.elements[path] = index + 1
        self._record(path)
        return self._record((*path, index))

    def _named(self, table: KeyPath, parts: list[str]) -> KeyPath:
        """The path of a key below `table`; of an array of tables the last element is meant."""
        path = table
        for part in parts:
            path = (*path, part)
            self._record(path)
            if path in self.elements:
                path = (*path, self.elements[path] - 1)
        return path

    def _record(self, path: KeyPath) -> KeyPath:
        self.lines.setdefault(path, bisect_right(self.line_starts, self.statement_at))
        return path

    def _key(self) -> list[str]:
        parts: list[str] = []
        while found := _KEY_PART.match(self.text, self.at):
            self.at = found.end()
            if (basic := found["basic"]) is not None:
                parts.append(tomllib.loads(f'key = "{basic}"')["key"])
            else:
                parts.append(found["bare"] or found["literal"] or "")
            if not self.text.startswith(".", self.at):
                break
            self.at += 1
        return parts

    def _assignment(self, table: KeyPath) -> None:
        path = self._named(table, self._key())
        self.at += 1
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._skip_blank()
        opening = self.text[self.at : self.at + 1]
        if opening not in ("[", "{"):
            found = _SCALAR.match(self.text, self.at)
            # Valid text always has a value here; the step keeps the scan going if it has not.
            self.at = found.end() if found else self.at + 1
            return
        self.at += 1
        index = 0
        while self._skip_blank() and self.text[self.at] not in "]}":
            if self.text[self.at] == ",":
                self.at += 1
            elif opening == "{":
                self.statement_at = self.at
                self._assignment(path)
            else:
                self.statement_at = self.at
                self._record((*path, index))
                self._value((*path, index))
                index += 1
        self.at += 1


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
            yield f"{toml_key(key)} = {_value(value)}"
    for key in inner:
        path, value = (*at, key), table[key]
        heading = ".".join(map(toml_key, path))
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


def toml_key(key: str) -> str:
    """A key: bare where TOML allows it."""
    return key if _BARE.fullmatch(key) else toml_text(key)


def toml_text(text: str) -> str:
    """A text as TOML's basic string."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    code = ord(char)
    if char.isprintable():
        return char
    return f"\\u{code:04X}" if code < 1 << 16 else f"\\U{code:08X}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('list[object]', value)))}]"
    if isinstance(value, Mapping):
        rows = cast("Mapping[str, object]", value).items()
        return f"{{{', '.join(f'{toml_key(key)} = {_value(one)}' for key, one in rows)}}}"
    raise TypeError(f"{type(value).__name__} has no form in TOML here")
