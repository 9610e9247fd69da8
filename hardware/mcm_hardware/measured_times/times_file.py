"""Reading an untrusted table of measured times: a CSV file, with the line of every fault."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir

from mcm_compiler.components.cost_choice import MAX_SECONDS
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_hardware.descriptions.description_reader import nearest_key
from mcm_hardware.tensors.storage_widths import value_dims, value_dtype

SUBJECTS = ("node", "kernel", "op_type")
"""Columns of which each row fills one: what its time is of."""

NOTES = ("count", "how", "machine")
"""Columns about the measurement, which no time depends on."""

COLUMNS = (*SUBJECTS, "inputs", "type", "chip", "seconds", "spread", *NOTES)

MAX_SPREAD = 1e3

MAX_FAULTS = 20
"""Faults that are spelled out."""

_HINT = "see docs/how-to/kernel-times.md for the form"
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SHAPES = re.compile(r"(?:(?:\d+(?:x\d+)*|scalar|-)(?:;|$))*", re.ASCII)
_TYPES = {kind.name.lower() for kind in ir.DataType if kind is not ir.DataType.UNDEFINED}

Row = Mapping[str, str]


@dataclass
class _Reading:
    """Findings so far."""

    path: str
    chip: str
    times: TimesTable
    seen: dict[tuple[str, ...], int]
    chips: dict[str, int]
    faults: list[Diagnostic]

    def fault(self, line: int, message: str, hint: str = _HINT) -> None:
        self.faults.append(Diagnostic("MCM-C005", message, f"{self.path}:{line}", hint))


def read_times(data: bytes, path: str, chip: str) -> TimesTable:
    """The times that hold for one kind of chip.

    Args:
        data: the file.
        path: its name, for diagnostics.
        chip: kind of chip; rows without one hold for every kind, unless the same is there for this
            one. Empty where the table is of one kind.

    Raises:
        CompileError: MCM-C005, one diagnostic per fault, up to `MAX_FAULTS`.
    """
    reading = _Reading(path, chip, TimesTable(path), {}, {}, [])
    try:
        for line, row in _rows(data, reading):
            _take(reading, line, row)
            if len(reading.faults) >= MAX_FAULTS:
                break
    except _UnreadableError as error:
        reading.fault(error.line, str(error))
    if not reading.faults:
        _check_chip(reading)
    if not reading.faults and not reading.seen:
        reading.fault(1, "the table has no times")
    if reading.faults:
        raise CompileError(reading.faults[:MAX_FAULTS])
    return reading.times


class _UnreadableError(Exception):
    """The file is no table from a line on."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _rows(data: bytes, reading: _Reading) -> Iterator[tuple[int, Row]]:
    """Each row behind the header with its last line, by column."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _UnreadableError(line, "the table is not UTF-8 text") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: Sequence[str] = ()
    try:
        for cells in reader:
            if not cells:
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                _check_header(header, reader.line_num)
            elif len(cells) != len(header):
                message = f"the row has {len(cells)} cells, the header {len(header)} columns"
                reading.fault(reader.line_num, message)
                if len(reading.faults) >= MAX_FAULTS:
                    return
            else:
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise _UnreadableError(reader.line_num, f"the table is not CSV: {error}") from None
    if not header:
        raise _UnreadableError(1, "the table has no header")


def _check_header(header: Sequence[str], line: int) -> None:
    for name in header:
        if name not in COLUMNS:
            near = nearest_key(name, COLUMNS)
            known = f"did you mean '{near[0]}'?" if near else f"columns are {', '.join(COLUMNS)}"
            raise _UnreadableError(line, f"the header has a column {quote(name)}; {known}")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise _UnreadableError(line, f"the header has the column '{twice}' twice")
    if "seconds" not in header or not set(header) & set(SUBJECTS):
        found = ", ".join(header)
        raise _UnreadableError(
            line, f"the header needs 'seconds' and one of {', '.join(SUBJECTS)}; it has {found}"
        )
    lacking = [name for name in ("inputs", "type") if name not in header]
    if "op_type" in header and lacking:
        raise _UnreadableError(line, f"the header has 'op_type' and lacks '{lacking[0]}'")


def _take(reading: _Reading, line: int, row: Row) -> None:
    """Adds the time of one row, or its fault."""
    given = [column for column in SUBJECTS if row.get(column, "")]
    if len(given) != 1:
        what = "names nothing" if not given else f"has {' and '.join(given)} at once"
        reading.fault(line, f"the row {what}; it needs one of {', '.join(SUBJECTS)}")
        return
    column = given[0]
    subject = row[column]
    seconds = _seconds(reading, line, row["seconds"].strip(), subject)
    inputs, dtype, chip = (row.get(name, "").strip() for name in ("inputs", "type", "chip"))
    if column == "op_type":
        subject = subject.strip()
        if not _kind_holds(reading, line, inputs, dtype):
            return
    elif inputs or dtype:
        reading.fault(line, f"inputs and type go with op_type, and not with {column}")
        return
    if seconds is None:
        return
    key = (column, subject, inputs, dtype, chip)
    if key in reading.seen:
        first = reading.seen[key]
        reading.fault(line, f"{quote(subject)} has a time already, in line {first}")
        return
    reading.seen[key] = line
    if chip:
        reading.chips.setdefault(chip, line)
        if chip != reading.chip:
            return
    elif (*key[:-1], reading.chip) in reading.seen and reading.chip:
        return  # the row of this kind of chip wins
    reading.times.machines.add(row.get("machine", "").strip())
    spread = _spread(reading, line, row.get("spread", "").strip() or "0", subject)
    time = MeasuredTime(seconds, line, spread)
    if column == "node":
        reading.times.nodes[subject] = time
    elif column == "kernel":
        reading.times.kernels[subject] = time
    else:
        reading.times.kinds[OpKind(subject, inputs, dtype)] = time


def _seconds(reading: _Reading, line: int, text: str, subject: str) -> float | None:
    """The time of a row, or None after its fault."""
    if not text:
        reading.fault(line, f"{quote(subject)} has no time", "fill in seconds, or leave it out")
        return None
    if not _NUMBER.fullmatch(text):
        reading.fault(
            line,
            f"the time of {quote(subject)} is {quote(text[:40])}, which is no number",
            "write seconds such as 1.25e-5, or leave the row out",
        )
        return None
    seconds = float(text)
    if not 0.0 <= seconds <= MAX_SECONDS:
        why = "negative" if seconds < 0 else f"more than {MAX_SECONDS:g} seconds"
        hint = "times are in seconds: 12 microseconds are 1.2e-5"
        reading.fault(line, f"the time of {quote(subject)} is {why}: {text[:40]}", hint)
        return None
    return seconds


def _spread(reading: _Reading, line: int, text: str, subject: str) -> float:
    """The repeat error of a row; 0 after its fault."""
    if _NUMBER.fullmatch(text) and 0.0 <= float(text) <= MAX_SPREAD:
        return float(text)
    message = f"the spread of {quote(subject)} is {quote(text[:40])}, which is no share of a time"
    reading.fault(line, message, "write a number such as 0.02, or leave it out")
    return 0.0


def _kind_holds(reading: _Reading, line: int, inputs: str, dtype: str) -> bool:
    if not _SHAPES.fullmatch(inputs) or inputs.endswith(";"):
        reading.fault(
            line,
            f"inputs are {quote(inputs[:60])}, which are no shapes",
            "write them as 1x64x56x56;64x64x3x3;64, with scalar and - for what is left away",
        )
        return False
    if dtype not in _TYPES:
        near = nearest_key(dtype.lower(), sorted(_TYPES)) if dtype else None
        reading.fault(
            line,
            f"{quote(dtype[:40])} is no element type of ONNX",
            f"did you mean '{near[0]}'?" if near else "such as float, float16 or int8",
        )
        return False
    return True


def _check_chip(reading: _Reading) -> None:
    """Return whether the kind of chip that was asked for is one of the table's."""
    if not reading.chips and not reading.chip:
        return
    known = ", ".join(quote(name) for name in sorted(reading.chips)[:10]) or "none"
    if not reading.chip:
        line = min(reading.chips.values())
        hint = "say which with table{file=...,chip=...}"
        reading.fault(line, f"the table is about the kinds of chip {known}", hint)
    elif reading.chip not in reading.chips:
        message = f"no row is about the kind of chip {quote(reading.chip)}; known: {known}"
        reading.fault(1, message, "name one of them in the option chip")


class MeasuredTime(NamedTuple):
    """Seconds on a chip of speed 1.

    Attributes:
        seconds: the time.
        line: of the table.
        spread: repeat error as a share of the time.
    """

    seconds: float
    line: int
    spread: float = 0.0


class OpKind(NamedTuple):
    """Ops that take the same time.

    Attributes:
        op_type: with its domain in front where that is not ONNX's own: `com.acme.Blend`.
        inputs: shapes of all operands: `1x64x56x56;64x64x3x3;64`, with `scalar` for rank 0 and
            `-` for one that is left away.
        type: ONNX element type of the first operand, in lower case.
    """

    op_type: str
    inputs: str
    type: str


@dataclass(frozen=True)
class TimesTable:
    """A table as it was read, for one kind of chip.

    Attributes:
        path: name of its file, for diagnostics.
        nodes: times of ops by their names.
        kernels: times of kernels by their names.
        kinds: times of ops by their kinds.
        machines: short names of those that were measured; empty names where rows have none.
    """

    path: str
    nodes: dict[str, MeasuredTime] = field(default_factory=dict[str, MeasuredTime])
    kernels: dict[str, MeasuredTime] = field(default_factory=dict[str, MeasuredTime])
    kinds: dict[OpKind, MeasuredTime] = field(default_factory=dict[OpKind, MeasuredTime])
    machines: set[str] = field(default_factory=set[str])


def op_kind(node: ir.Node) -> OpKind:
    """The kind of an op; dimensions that depend on data count as the cost model counts them."""
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
    operands = [value for value in node.inputs if value is not None]
    typed = next((v for v in (*operands, *node.outputs) if value_dtype(v) is not None), None)
    dtype = value_dtype(typed) if typed is not None else None
    return OpKind(
        f"{domain}{node.op_type}",
        ";".join(map(_shape_text, node.inputs)),
        dtype.name.lower() if dtype is not None else "",
    )


def _shape_text(value: ir.Value | None) -> str:
    if value is None:
        return "-"
    dims = value_dims(value)
    if dims is None:
        return "?"
    return "x".join(map(str, dims)) if dims else "scalar"
