"""The line of every key of a TOML text, which Python's own parser does not tell."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

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
