"""Reading the TOML description of a ring package: every fault is found, each with its place."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.target import HostIo
from mcm_hardware.chip_spec import ChipSpec, MacArray, RingSpec, VectorUnit
from mcm_hardware.storage_widths import StorageWidths
from mcm_hardware.target_schema import (
    RING_KEYS,
    STORAGE_BITS,
    STORAGE_TABLE,
    TABLES,
    Choice,
    Number,
    Rule,
    Text,
)

_TYPE_WORDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "a table"),
)


def parse_ring(name: str, text: str) -> RingSpec:
    """The package that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `target_schema.RING_KEYS`.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 not TOML, MCM-T002 unknown key,
            MCM-T003 missing key, MCM-T004 wrong type, MCM-T005 value out of range, MCM-T006
            unknown storage type.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CompileError(_not_toml(name, error)) from None
    reader = _Reader(name, text)
    values = reader.read(data)
    if reader.faults:
        raise CompileError(reader.faults)
    return _ring_spec(values, reader.storage)


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.lines = _lines_of_keys(text)
        self.faults: list[Diagnostic] = []
        self.storage: dict[ir.DataType, int] = {}

    def read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        refused: set[str] = set()
        for path, value in _leaves(data, ""):
            if path.startswith(STORAGE_TABLE + "."):
                self._read_storage(path, value)
            elif path in TABLES:
                if not isinstance(value, dict):
                    refused.add(path)
                    self._wrong_type(path, value, "a table")
            elif path not in RING_KEYS:
                self._unknown_key(path)
            elif self._holds(path, value, RING_KEYS[path]):
                values[path] = value
            else:
                refused.add(path)
        for path, rule in RING_KEYS.items():
            covered = any(path == r or path.startswith(r + ".") for r in refused)
            if path not in values and not covered and not isinstance(rule, Text):
                self._missing_key(path, rule)
        return values

    def _fault(self, code: str, message: str, path: str, hint: str | None = None) -> None:
        line = self.lines.get(path)
        where = self.name if line is None else f"{self.name}:{line}"
        self.faults.append(Diagnostic(code, message, at=f"{where}: {quote(path)}", hint=hint))

    def _holds(self, path: str, value: object, rule: Rule) -> bool:
        if isinstance(rule, Number):
            return self._number_holds(path, value, rule)
        if not isinstance(value, str):
            self._wrong_type(path, value, "a text")
            return False
        if isinstance(rule, Choice) and value not in rule.words:
            words = " or ".join(f'"{word}"' for word in rule.words)
            self._fault("MCM-T005", f"{quote(value)} is not {words}", path)
            return False
        return True

    def _number_holds(self, path: str, value: object, rule: Number) -> bool:
        kinds = (int,) if rule.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            self._wrong_type(path, value, "a whole number" if rule.whole else "a number")
            return False
        number = value
        if not rule.low <= number <= rule.high:
            if rule.low > 0 and number <= 0:
                problem = "is not positive"
            elif number < rule.low:
                problem = f"is less than {rule.low:g}"
            else:
                problem = f"is not a sensible value; the greatest is {rule.high:g}"
            hint = "check the unit in the key's name"
            self._fault("MCM-T005", f"{_shown(number)} {problem}", path, hint)
            return False
        if rule.power_of_two and int(number) & (int(number) - 1):
            self._fault("MCM-T005", f"{number} is not a power of two", path)
            return False
        return True

    def _read_storage(self, path: str, value: object) -> None:
        key = path.removeprefix(STORAGE_TABLE + ".")
        names = [kind.name for kind in ir.DataType if kind is not ir.DataType.UNDEFINED]
        if key not in names:
            hint = _did_you_mean(key.upper(), names, cutoff=0.5)
            self._fault(
                "MCM-T006",
                f"{quote(key)} is not an ONNX element type",
                path,
                hint or f"the types are {', '.join(names)}",
            )
        elif isinstance(value, bool) or not isinstance(value, int):
            self._wrong_type(path, value, "a whole number")
        elif value not in STORAGE_BITS:
            widths = ", ".join(map(str, STORAGE_BITS))
            self._fault(
                "MCM-T005",
                f"{_shown(value)} bits per element are not possible",
                path,
                f"the widths are {widths}",
            )
        else:
            self.storage[ir.DataType[key]] = value

    def _unknown_key(self, path: str) -> None:
        known = [*RING_KEYS, *sorted(TABLES)]
        by_leaf = {key.rpartition(".")[2]: key for key in reversed(known)}
        hint = _did_you_mean(path, known)
        if hint is None:
            near = difflib.get_close_matches(path.rpartition(".")[2], by_leaf, n=1)
            hint = f"did you mean '{by_leaf[near[0]]}'?" if near else None
        self._fault("MCM-T002", "a ring package has no such key", path, hint)

    def _missing_key(self, path: str, rule: Rule) -> None:
        table, _, key = path.rpartition(".")
        example = f'"{rule.words[0]}"' if isinstance(rule, Choice) else "..."
        where = f"the table [{table}]" if table else "the top of the file"
        self._fault("MCM-T003", "the key is missing", path, f"add {key} = {example} to {where}")

    def _wrong_type(self, path: str, value: object, expected: str) -> None:
        found = next((word for kind, word in _TYPE_WORDS if isinstance(value, kind)), "a date")
        self._fault("MCM-T004", f"expected {expected}, found {found}", path)


def _shown(number: float) -> str:
    # A hexadecimal integer of the file may be too long for a float, and even for str().
    return f"{number:g}" if isinstance(number, float) or abs(number) < 1e300 else "a huge number"


def _did_you_mean(word: str, known: list[str], cutoff: float = 0.6) -> str | None:
    near = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else None


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Dotted path and value of every key, descending only into tables that the schema has."""
    for key, value in table.items():
        path = prefix + key
        if isinstance(value, dict) and path in TABLES:
            yield from _leaves(cast("dict[str, Any]", value), path + ".")
        else:
            yield path, value


_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'\- ]+?)\s*=")


def _lines_of_keys(text: str) -> dict[str, int]:
    """Line of each dotted path, found by a plain scan: tables, and keys at a line's start."""
    lines: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            path = _plain_path(header.group(1))
            lines.setdefault(path, number)
            prefix = path + "."
            continue
        key = _KEY.match(line)
        if key is not None:
            lines.setdefault(prefix + _plain_path(key.group(1)), number)
    return lines


def _plain_path(text: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in text.split("."))


def _not_toml(name: str, error: Exception) -> Diagnostic:
    text = str(error)
    place = re.search(r"\(at line (\d+), column \d+\)", text)
    where = f"{name}:{place.group(1)}" if place else name
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else quote(text)[1:-1]
    return Diagnostic("MCM-T001", f"the target description is not TOML: {reason}", at=where)


def _ring_spec(values: Mapping[str, Any], storage: Mapping[ir.DataType, int]) -> RingSpec:
    def number(path: str, unit: float) -> float:
        return float(values[path]) * unit

    chip = ChipSpec(
        sram_bytes=math.floor(values["chip.sram_mib"] * 2**20),
        sram_bytes_per_s=number("chip.sram_bandwidth_gb_per_s", 1e9),
        alignment_bytes=values["chip.buffer_alignment_bytes"],
        launch_s=number("chip.launch_overhead_ns", 1e-9),
        array=MacArray(
            rows=values["chip.mac_array.rows"],
            cols=values["chip.mac_array.cols"],
            clock_hz=number("chip.mac_array.clock_mhz", 1e6),
        ),
        vector=VectorUnit(
            lanes=values["chip.vector_unit.lanes"],
            clock_hz=number("chip.vector_unit.clock_mhz", 1e6),
        ),
        storage=StorageWidths(dict(storage)),
    )
    return RingSpec(
        summary=values.get("summary", ""),
        num_chips=values["package.num_chips"],
        link_bytes_per_s=number("link.bandwidth_gb_per_s", 1e9),
        hop_latency_s=number("link.hop_latency_us", 1e-6),
        host_io=cast("HostIo", values["package.host_io"]),
        host_bytes_per_s=number("host.bandwidth_gb_per_s", 1e9),
        host_latency_s=number("host.latency_us", 1e-6),
        channel_slots=values["package.channel_slots"],
        chip=chip,
    )
