"""Untrusted descriptions in TOML: bounded in size, with the line of every key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.toml_key_lines import KeyPath, key_lines

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
        shown = quote(".".join(part for part in path if isinstance(part, str)))
        line = self.line(path)
        return f"{self.name}:{line}: {shown}" if line else f"{self.name}: {shown}"

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
    try:
        file = Path(path)
        # A pipe without a writer would be waited for, and a device may never end.
        if file.exists() and not file.is_file():
            raise CompileError(_unreadable(path, "it is not a regular file", kind))
        with file.open("rb") as stream:
            data = stream.read(MAX_DESCRIPTION_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "its name is not a path"
        raise CompileError(_unreadable(path, reason, kind)) from error
    if len(data) > MAX_DESCRIPTION_BYTES:
        raise CompileError(
            _unreadable(path, f"it has more than {MAX_DESCRIPTION_BYTES} bytes", kind)
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = "it is not UTF-8 text"
        raise CompileError(_unreadable(f"{path}:{line}", reason, kind)) from error


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


def _unreadable(place: str, reason: str, kind: str) -> Diagnostic:
    return Diagnostic("MCM-T001", f"the {kind} file cannot be read: {reason}", at=place)


def _not_toml(place: str, reason: str, kind: str) -> Diagnostic:
    return Diagnostic(
        "MCM-T001",
        f"the {kind} description is not TOML: {reason}",
        at=place,
        hint="see docs/how-to/writing-a-target.md for the form",
    )
