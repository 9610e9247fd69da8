"""Assignments of named things to chips, as CSV or JSON: a user's own cut, and ours for others.

Rows of both kinds are looked at one by one, because all faulty ones are reported at once; readers
of records stop at the first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text import json_text
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded

if TYPE_CHECKING:
    from mcm_compiler.contracts.partition import Partition, PartitionProblem

MAX_FILE_BYTES = 1 << 26
"""An assignment of half a million ops."""

MAX_CHIP = 2**31 - 1

MAX_FAULTS = 20
"""Faults that are spelled out."""

JSON_SUFFIX = ".json"

COLUMNS = ("chip", "device")
"""Names of the second column; `mcmc partition` writes devices, `mcmc compile` chips."""


@dataclass(frozen=True)
class AssignedName:
    """One row of an assignment.

    Attributes:
        name: of an op or a group of ops, or a pattern with `*` and `?`.
        chip: where it goes.
        place: file and line, or file and name.
    """

    name: str
    chip: int
    place: str


def read_assignment(path: Path) -> tuple[AssignedName, ...]:
    """Reads an assignment: JSON where the file's name ends so, CSV else.

    CSV has the columns `name,chip`. JSON is an object with chips by name, on its own or under the
    key `assignment`, or there a list of objects with `name` and `chip`.

    Raises:
        CompileError: MCM-F010, with one diagnostic per faulty row.
    """
    source = str(path)
    try:
        text = read_bounded(path, MAX_FILE_BYTES)
        if path.suffix.lower() == JSON_SUFFIX:
            rows = _json_rows(parse_json(text), source)
        else:
            rows = _csv_rows(text, source)
    except UnreadableError as error:
        message = f"the assignment cannot be read: {error}"
        raise CompileError.of("MCM-F010", message, at=source) from error
    found: list[AssignedName] = []
    seen: dict[str, str] = {}
    faults: list[Diagnostic] = []
    for place, name, chip in rows:
        fault = None
        if not isinstance(name, str) or not name:
            fault = "a row has no name"
        elif not _is_chip(chip):
            fault = f"{quote(name)} goes to {quote(str(chip)[:40])}, which is no number of a chip"
        elif name in seen:
            fault = f"{quote(name)} is assigned twice, first at {seen[name]}"
        else:
            seen[name] = place
            found.append(AssignedName(name, int(chip), place))
        if fault is not None:
            faults.append(Diagnostic("MCM-F010", fault, at=place))
            if len(faults) == MAX_FAULTS:
                break
    if not found and not faults:
        message = "the assignment is empty"
        faults.append(Diagnostic("MCM-F010", message, at=source))
    CompileError.raise_any(faults)
    return tuple(found)


def assignment_text(
    chip_of: Mapping[str, int], column: Literal["chip", "device"], *, as_json: bool
) -> str:
    """The text of an assignment that `read_assignment` reads.

    Args:
        chip_of: by name, in the order of the file.
        column: what the numbers are called.
        as_json: JSON, not CSV.
    """
    if as_json:
        rows = [{"name": name, column: chip} for name, chip in chip_of.items()]
        return json_text.dump({"assignment": rows})
    buffer = io.StringIO(newline="")
    # The writer does not see that a carriage return ends a line for readers, too.
    everything = any("\r" in name for name in chip_of)
    quoting = csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL
    writer = csv.writer(buffer, lineterminator="\n", quoting=quoting)
    writer.writerows([("name", column), *chip_of.items()])
    return buffer.getvalue()


def chip_of_op(problem: PartitionProblem, partition: Partition) -> dict[str, int]:
    """The chip of each op, in the order of the problem; of a cloned op the first with a copy."""
    return {
        op: int(chip)
        for members, chip in zip(problem.members, partition.chip_of, strict=True)
        for op in members
    }


def _is_chip(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) < 11 and int(value) <= MAX_CHIP
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_CHIP


def _csv_rows(text: str, source: str) -> list[tuple[str, Any, Any]]:
    rows: list[tuple[str, Any, Any]] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if not cells:
                continue
            if not rows and len(cells) == 2 and cells[1].strip() in COLUMNS:
                # The header; a chip of that name is refused anyway.
                continue
            if len(cells) != 2:
                raise UnreadableError(
                    f"line {reader.line_num} has {len(cells)} cells and not two, name and chip"
                )
            rows.append((f"{source}:{reader.line_num}", cells[0], cells[1].strip()))
    except csv.Error as error:
        raise UnreadableError(f"line {reader.line_num} is not CSV: {error}") from None
    return rows


def _json_rows(data: Any, source: str) -> list[tuple[str, Any, Any]]:
    if isinstance(data, dict):
        data = cast("dict[str, Any]", data).get("assignment", data)
    if isinstance(data, dict):
        table = cast("dict[str, Any]", data)
        return [(f"{source}: {quote(name)}", name, chip) for name, chip in table.items()]
    if not isinstance(data, list):
        raise UnreadableError("it is neither an object nor a list under the key 'assignment'")
    rows: list[tuple[str, Any, Any]] = []
    for k, entry in enumerate(cast("list[Any]", data)):
        if not isinstance(entry, dict):
            raise UnreadableError(f"assignment[{k}] is not an object")
        row = cast("dict[str, Any]", entry)
        chips = [row[column] for column in COLUMNS if column in row]
        if len(chips) != 1:
            raise UnreadableError(f"assignment[{k}] has {len(chips)} of the keys chip and device")
        rows.append((f"{source}: assignment[{k}]", row.get("name"), chips[0]))
    return rows
