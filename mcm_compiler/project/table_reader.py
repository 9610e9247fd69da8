"""Reading the tables of a project file by their keys: every fault is found, with its line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.options import CompileOptions
from mcm_compiler.project import values
from mcm_compiler.project.values import Rule
from mcm_compiler.text.json_text import UnreadableError
from mcm_compiler.text.option_fields import Option, options_of
from mcm_compiler.text.toml_description import KeyPath, TomlDescription

MAX_FAULTS = 50
"""Faults that are listed; a hostile file can have very many."""

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
            except UnreadableError as error:
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


MAX_WHOLE = 2**63 - 1


@dataclass(frozen=True)
class Key:
    """One key.

    Attributes:
        name: as it is written.
        rule: what it may be.
        summary: what it means, for the reference.
        option: what it sets of a compile: a field of `CompileOptions`, or `sensitivities`; else
            empty.
    """

    name: str
    rule: Rule
    summary: str
    option: str = ""


_PROJECT = (
    Key("output", values.TEXT, "folder of the output folders (`build/mcmc`)"),
    Key("baseline", values.TEXT, "folder of the accepted baseline (`.mcmc-baseline`)"),
    Key("cache", values.TEXT, "folder of the cache (`.mcmc-cache`)"),
    Key("cache_limit", values.SIZE, 'above it the least recently used entries go (`"2 GiB"`)'),
    Key("plugins", values.texts("a path, or a list of paths"), "plug-in files, as `--plugin`"),
    Key("html", values.FLAG, "a page of each cell, and an index of them, as `--html`"),
)

_COMMON = (
    Key("targets", values.texts(), "names of targets, or paths of descriptions (`mcm36`)"),
    Key("level", values.LEVEL, "effort of the search, as `-O`"),
    Key("levels", values.LEVELS, "several of them, each a cell of its own"),
    Key("dims", values.SIZES, "sizes of symbolic dimensions, as `--dim`"),
    Key("shapes", values.SHAPES, "shapes of inputs, as `--shape`"),
    Key("state", values.PAIRS, "inputs that an output of the run before is handed on to"),
    Key("inputs", values.TEXT, "`.npz` file with sample inputs, for the compile and the check"),
    Key("min_throughput", values.RATE, "least throughput"),
    Key("max_latency", values.DURATION, "longest latency of an inference"),
    Key("max_gap", values.share(math.inf), "largest distance of the period from its lower bound"),
    Key("max_regression", values.share(1.0), "fall of throughput that is allowed (`3%`)"),
)

_RULES: dict[str, Rule] = {
    "text": values.TEXT,
    "file": values.TEXT,
    "flag": values.FLAG,
    "switch": values.FLAG,
    "duration": values.DURATION,
    "rate": values.RATE,
    "places": values.CHIPS,
    "pins": values.PINS,
    "sizes": values.SIZES,
    "limits": values.DURATIONS,
}
"""By the form of an option."""


def option_keys(record: type) -> tuple[Key, ...]:
    """The keys of the fields of a record of options."""
    return tuple(
        Key(option.key, _rule(option), f"as `{option.flag}`", option.name)
        for option in options_of(record)
        if option.key is not None
    )


def _rule(option: Option) -> Rule:
    if option.form == "choice":
        return values.one_of(option.choices)
    if option.form == "whole":
        return values.whole(option.low or 0, option.high or MAX_WHOLE)
    return _RULES[option.form]


_OPTIONS = (
    *option_keys(CompileOptions),
    Key("sensitivities", values.FLAG, "as `--sensitivities`", "sensitivities"),
)

_FAILURE = Rule("a table", lambda value: value)
_TABLES = Rule("tables", lambda value: value)

_MODEL = (
    Key("files", values.texts(), "patterns, paths, and names of the zoo"),
    Key("exclude", values.texts(), "patterns of files that are left out"),
    Key("name", values.folder_name(8), "of the only model; else the path of its file"),
    Key("expected_failure", _FAILURE, "a failure that is known: the build fails without it"),
    Key("profiles", _TABLES, "ways in which the model is used, each a cell of its own"),
)

_PROFILE = (
    Key("name", values.folder_name(1), "of the profile"),
    Key("expected_failure", _FAILURE, "as for a model"),
)


def _by_name(*groups: tuple[Key, ...]) -> dict[str, Key]:
    return {key.name: key for group in groups for key in group}


SETTING_KEYS = _by_name(_COMMON, _OPTIONS)
"""Keys of defaults, models and profiles alike."""

DEFAULT_KEYS = _by_name(_PROJECT, _COMMON, _OPTIONS)
"""Keys of `[defaults]`, which may stand at the top of the file as well."""

MODEL_KEYS = _by_name(_MODEL, _COMMON, _OPTIONS)
PROFILE_KEYS = _by_name(_PROFILE, _COMMON, _OPTIONS)

FAILURE_KEYS = _by_name(
    (
        Key("code", values.CODE, "of the error that the compile ends with"),
        Key("reason", values.TEXT, "why it is expected"),
        Key("targets", values.texts(), "on which it is expected (all)"),
    )
)
"""Keys of `expected_failure`."""
