"""Reading a table of a target description by its schema: every fault is found, with its place."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.toml_description import KeyPath, parse_description
from mcm_hardware.descriptions import target_schema
from mcm_hardware.descriptions.chip_tables import ChipTable, read_chip_tables
from mcm_hardware.descriptions.target_schema import CHIP_TABLE, STORAGE_BITS, STORAGE_TABLE

MAX_FAULTS = 50
"""Faults that are spelled out; a hostile file can have a hundred thousand."""

_TYPE_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "a table"),
)

_ONNX_TYPES = [kind.name for kind in ir.DataType if kind is not ir.DataType.UNDEFINED]


class DescriptionReader:
    """Reads tables, and collects what is wrong with them.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description.
        form: what files of its family look like.

    Raises:
        CompileError: MCM-T001 for what is not TOML.
    """

    def __init__(self, name: str, text: str, form: target_schema.DescriptionForm) -> None:
        self.description = parse_description(name, text)
        self.form = form
        self._faults: list[tuple[int, Diagnostic]] = []
        self._unshown = 0
        self._entry: tuple[str, int] | None = None

    @cached_property
    def values(self) -> dict[str, Any]:
        """Values of all keys of the form by dotted path, as `read` gives them.

        Where chips are of several kinds, those of the first one.
        """
        data, keys = self.description.data, self.form.keys
        if self.chip_tables is None:
            return self.read(data, keys)
        others = {path: key for path, key in keys.items() if not path.startswith("chip.")}
        values = self.read({name: data[name] for name in data if name != CHIP_TABLE}, others)
        return {**values, **(self.chip_tables[0].values if self.chip_tables else {})}

    @cached_property
    def chip_tables(self) -> list[ChipTable] | None:
        """The tables `[[chip]]`; None where all chips are of one kind."""
        several = isinstance(self.description.data.get(CHIP_TABLE), list)
        return read_chip_tables(self) if self.form.kinds and several else None

    def number(self, path: str, unit: float) -> float:
        """A number of the file in another unit; 0 where the file has none."""
        return float(self.values.get(path, 0.0)) * unit

    def sections(self) -> dict[str, dict[str, str | float]]:
        """The values by table, to be shown."""
        found: dict[str, dict[str, str | float]] = {}
        for path, value in self.values.items():
            table, _, key = path.rpartition(".")
            if table:
                shown = ", ".join(map(str, value)) if isinstance(value, list) else value
                found.setdefault(table, {})[key] = shown
        return found

    def tables(
        self, name: str, whole: str = "an array of tables", each: str = "a table"
    ) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
        """Path and content of each table of an array; notes what is none.

        Args:
            name: of the array.
            whole: what it should be, for a diagnostic.
            each: what its entries should be, likewise.
        """
        listed = self.description.data.get(name, [])
        if not isinstance(listed, list):
            self.wrong_type((name,), listed, whole)
            return
        for index, table in enumerate(cast("list[Any]", listed)):
            if isinstance(table, dict):
                yield (name, index), cast("dict[str, Any]", table)
            else:
                self.wrong_type((name, index), table, each)

    def refuse(self) -> None:
        """Ends the reading of a file with faults.

        Raises:
            CompileError: with one diagnostic per fault.
        """
        if faults := self.faults:
            raise CompileError(faults)

    @property
    def faults(self) -> list[Diagnostic]:
        """Faults in the order of the file; past `MAX_FAULTS` only their number."""
        listed = [fault for _, fault in sorted(self._faults, key=lambda found: found[0])]
        if not self._unshown:
            return listed
        rest = f"{self._unshown} more faults are not listed"
        return [*listed, Diagnostic("MCM-T007", rest, at=self.description.name)]

    def fault(
        self,
        code: str,
        message: str,
        path: KeyPath,
        hint: str | Callable[[], str | None] | None = None,
    ) -> None:
        """Notes a fault of the key at `path`; a hint that takes time to find may be a function."""
        if len(self._faults) >= MAX_FAULTS:
            self._unshown += 1
            return
        shown = hint() if callable(hint) else hint
        if self._entry is not None and path[:1] == self._entry[:1]:
            path = (*self._entry, *path[1:])
        found = Diagnostic(code, message, self.description.place(path), shown)
        self._faults.append((self.description.line(path), found))

    @contextmanager
    def inside(self, array: str, index: int) -> Generator[None]:
        """A block that reads an entry of an array of tables as if it were a table of that name."""
        self._entry = (array, index)
        try:
            yield
        finally:
            self._entry = None

    def read(
        self, table: Mapping[str, Any], keys: Mapping[str, target_schema.Key], at: KeyPath = ()
    ) -> dict[str, Any]:
        """Values by dotted path below `table`, defaults filled in.

        What is wrong is left out and noted. Free tables and arrays of tables are not looked at.

        Args:
            table: what the file holds at `at`.
            keys: what belongs there.
            at: path of the table.
        """
        values: dict[str, Any] = {}
        refused: set[str] = set()
        tables = self.form.tables | target_schema.tables_of(keys)
        for path, value in self._leaves(table, (), tables):
            dotted = ".".join(path)
            if any("." in part for part in path):
                self._unknown_key(at, path, keys)
            elif dotted in keys:
                if self.holds((*at, *path), value, keys[dotted].rule):
                    values[dotted] = value
                else:
                    refused.add(dotted)
            elif not at and dotted in tables:
                if not isinstance(value, dict):
                    refused.add(dotted)
                    self.wrong_type((*at, *path), value, "a table")
            elif at or dotted not in self.form.arrays:
                refused.add(self._unknown_key(at, path, keys))
        for dotted, key in keys.items():
            covered = any(dotted == r or dotted.startswith(r + ".") for r in refused)
            if dotted in values or covered:
                continue
            if key.default is not None:
                values[dotted] = key.default
            elif key.required and self._table_is_there(dotted.partition(".")[0], table):
                self._missing_key(at, dotted, key.rule)
        return values

    def read_storage(self, table: Mapping[str, Any]) -> dict[ir.DataType, int]:
        """Bits of each ONNX type that `[storage_bits]` lists."""
        found: dict[ir.DataType, int] = {}
        listed = table.get(STORAGE_TABLE)
        if not isinstance(listed, dict):
            return found
        for name, bits in cast("dict[str, Any]", listed).items():
            path = (STORAGE_TABLE, name)
            if name not in _ONNX_TYPES:
                message = f"{quote(name)} is not an ONNX element type"
                self.fault("MCM-T006", message, path, lambda name=name: _nearest_type(name))
            elif isinstance(bits, bool) or not isinstance(bits, int):
                self.wrong_type(path, bits, "a whole number")
            elif bits not in STORAGE_BITS:
                message = f"{_shown(bits)} bits per element are not possible"
                hint = f"the widths are {', '.join(map(str, STORAGE_BITS))}"
                self.fault("MCM-T005", message, path, hint)
            else:
                found[ir.DataType[name]] = bits
        return found

    def holds(self, path: KeyPath, value: object, rule: target_schema.Rule) -> bool:
        """Return whether `value` obeys `rule`; notes the fault if not."""
        if isinstance(rule, target_schema.Number):
            return self._number_holds(path, value, rule)
        if isinstance(rule, target_schema.Flag):
            return isinstance(value, bool) or self.wrong_type(path, value, "true or false")
        if isinstance(rule, target_schema.Listed):
            return self._list_holds(path, value, rule)
        if not isinstance(rule, (target_schema.Choice, target_schema.Text)):
            return isinstance(value, list) or self.wrong_type(path, value, "a list")
        if not isinstance(value, str):
            return self.wrong_type(path, value, "a text")
        if isinstance(rule, target_schema.Choice) and value not in rule.words:
            words = " or ".join(f'"{word}"' for word in rule.words)
            self.fault("MCM-T005", f"{quote(value)} is not {words}", path)
            return False
        return True

    def wrong_type(self, path: KeyPath, value: object, expected: str) -> bool:
        """Notes that a value is of another type than `expected`; always False."""
        found = next((word for kind, word in _TYPE_WORDS if isinstance(value, kind)), "a date")
        self.fault("MCM-T004", f"expected {expected}, found {found}", path)
        return False

    def _list_holds(self, path: KeyPath, value: object, rule: target_schema.Listed) -> bool:
        if not isinstance(value, list):
            return self.wrong_type(path, value, "a list")
        entries = cast("list[Any]", value)
        if not rule.least <= len(entries) <= rule.most:
            wanted = f"{rule.least} to {rule.most}" if rule.least < rule.most else f"{rule.least}"
            self.fault("MCM-T005", f"the list has {len(entries)} entries, not {wanted}", path)
            return False
        held = [self.holds((*path, i), entry, rule.each) for i, entry in enumerate(entries)]
        return all(held)

    def _number_holds(self, path: KeyPath, value: object, rule: target_schema.Number) -> bool:
        kinds = (int,) if rule.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return self.wrong_type(path, value, "a whole number" if rule.whole else "a number")
        number = value
        if not rule.low <= number <= rule.high:
            if isinstance(number, float) and not math.isfinite(number):
                problem = "is not a finite number"
            elif rule.low > 0 and number <= 0:
                problem = "is not positive"
            elif number < rule.low:
                problem = f"is less than {rule.low:g}"
            else:
                problem = f"is not a sensible value; the greatest is {rule.high:g}"
            unit = target_schema.unit_of(str(path[-1]))
            hint = f"the key is in {unit}" if unit else None
            self.fault("MCM-T005", f"{_shown(number)} {problem}", path, hint)
            return False
        if rule.power_of_two and int(number) & (int(number) - 1):
            self.fault("MCM-T005", f"{number} is not a power of two", path)
            return False
        return True

    def _unknown_key(
        self, at: KeyPath, path: tuple[str, ...], keys: Mapping[str, target_schema.Key]
    ) -> str:
        """Notes a key that does not exist; the one that it stands for, or `""`."""
        form = self.form
        known = [*keys] if at else [*keys, *sorted(form.arrays), *sorted(form.tables)]
        few = len(self._faults) < MAX_FAULTS
        near = nearest_key(".".join(path), known) if few else None
        message = f"{form.part if at else form.subject} has no such key"
        self.fault("MCM-T002", message, (*at, *path), near[1] if near else None)
        return near[0] if near else ""

    def _table_is_there(self, name: str, table: Mapping[str, Any]) -> bool:
        return name not in self.form.optional_tables or name in table

    def _leaves(
        self, table: Mapping[str, Any], above: tuple[str, ...], tables: frozenset[str]
    ) -> Iterator[tuple[Any, Any]]:
        """Path and value of every key, descending only into `tables` that the schema has."""
        for key, value in table.items():
            path = (*above, key)
            inner = isinstance(value, dict) and ".".join(path) in tables
            if inner and ".".join(path) not in self.form.free_tables:
                yield from self._leaves(cast("dict[str, Any]", value), path, tables)
            else:
                yield path, value

    def _missing_key(self, at: KeyPath, dotted: str, rule: target_schema.Rule) -> None:
        path = (*at, *dotted.split("."))
        table = ".".join(part for part in path[:-1] if isinstance(part, str))
        example = f'"{rule.words[0]}"' if isinstance(rule, target_schema.Choice) else "..."
        where = f"the table [{table}]" if table else "the top of the file"
        where = f"[[{table}]]" if any(isinstance(part, int) for part in at) else where
        self.fault("MCM-T003", "the key is missing", path, f"add {path[-1]} = {example} to {where}")


def _shown(number: float) -> str:
    # A hexadecimal integer of the file may be too long for a float, and even for str().
    return f"{number:g}" if isinstance(number, float) or abs(number) < 1e300 else "a huge number"


def _nearest_type(name: str) -> str:
    near = nearest_key(name.upper(), _ONNX_TYPES)
    return near[1] if near else f"the types are {', '.join(_ONNX_TYPES)}"


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
        if target_schema.unit_of(right) and in_table == table and _stem(right) == _stem(leaf):
            return key, f"write it as '{right}', in {target_schema.unit_of(right)}"
    near = difflib.get_close_matches(path, known, n=1)
    if not near:
        by_leaf = {key.rpartition(".")[2]: key for key in reversed(known)}
        near = [by_leaf[match] for match in difflib.get_close_matches(leaf, by_leaf, n=1)]
    return (near[0], f"did you mean '{near[0]}'?") if near else None


def _stem(key: str) -> str:
    return _UNIT.sub("", key)
