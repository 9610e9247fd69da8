"""Reading the tables of a project file by their keys: every fault is found, with its line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.project.keys import Key
from mcm_compiler.project.values import UnfitError
from mcm_compiler.text.toml_description import KeyPath, TomlDescription

MAX_FAULTS = 50
"""Faults that are told; a hostile file can have very many."""

MAX_COMPARED = 100
"""Longer keys resemble no key."""


class TableReader:
    """Reads tables, and collects what is wrong with them.

    Args:
        description: the file.
    """

    def __init__(self, description: TomlDescription) -> None:
        self.description = description
        self._faults: list[tuple[int, Diagnostic]] = []
        self._meant: set[KeyPath] = set()

    def fault(self, code: str, message: str, path: KeyPath, hint: str | None = None) -> None:
        """Notes a fault of the key at `path`."""
        if len(self._faults) < MAX_FAULTS:
            found = Diagnostic(code, message, self.description.place(path), hint)
            self._faults.append((self.description.line(path), found))

    def finish(self) -> None:
        """Ends the reading.

        Raises:
            CompileError: with all faults in the order of their lines, if there are any.
        """
        if self._faults:
            ordered = sorted(self._faults, key=lambda fault: fault[0])
            raise CompileError([found for _, found in ordered])

    def table(
        self, data: Any, keys: Mapping[str, Key], at: KeyPath, further: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The values of a table that fit; what does not is noted and left out.

        Args:
            data: what stands at `at`.
            keys: that a table may have there.
            at: path of the table.
            further: keys that somebody else reads.
        """
        if not isinstance(data, dict):
            self.fault("MCM-B004", "a table is needed here", at)
            return {}
        found: dict[str, Any] = {}
        for name, value in cast("dict[str, Any]", data).items():
            if name in further:
                continue
            key = keys.get(name)
            if key is None:
                self._unknown(name, [*keys, *further], at)
                continue
            try:
                found[name] = key.rule.read(value)
            except UnfitError as error:
                hint = f"{name} is {key.rule.words}"
                self.fault("MCM-B004", str(error), (*at, name), hint)
        return found

    def tables(self, data: Any, at: KeyPath) -> list[tuple[Any, KeyPath]]:
        """The elements of an array of tables, each with its path."""
        if data is None:
            return []
        if not isinstance(data, list):
            header = ".".join(part for part in at if isinstance(part, str))
            self.fault("MCM-B004", f"tables [[{header}]] are needed here", at)
            return []
        return [(item, (*at, index)) for index, item in enumerate(cast("list[Any]", data))]

    def missing(self, name: str, keys: Mapping[str, Key], at: KeyPath) -> None:
        """Notes a key that a table lacks, unless one there is probably that key misspelt."""
        if (*at, name) in self._meant:
            return
        hint = f"add {name}: {keys[name].rule.words}"
        self.fault("MCM-B003", f"the key {quote(name)} is missing", at, hint)

    def _unknown(self, name: str, known: list[str], at: KeyPath) -> None:
        near = difflib.get_close_matches(name, known, n=1) if len(name) <= MAX_COMPARED else []
        self._meant.update((*at, key) for key in near)
        hint = f"did you mean {quote(near[0])}?" if near else f"keys are {', '.join(known)}"
        self.fault("MCM-B002", f"there is no key {quote(name)} here", (*at, name), hint)
