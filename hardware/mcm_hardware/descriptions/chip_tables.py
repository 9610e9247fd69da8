"""Kinds of chips of one package: the tables `[[chip]]`, and `[place]` with their chips."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine import MOST_KINDS
from mcm_compiler.text.toml_description import KeyPath
from mcm_hardware.descriptions.target_schema import CHIP_TABLE, PLACE_TABLE, Key

if TYPE_CHECKING:
    from mcm_hardware.descriptions.description_reader import DescriptionReader

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")

_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})")

_LISTS = ("ops", "types")

MOST_ENTRIES = 4096
"""Entries of a list of places; ranges make longer ones unnecessary."""


@dataclass(frozen=True)
class ChipTable:
    """A kind of chip as a description has it.

    Attributes:
        name: of the kind; empty where the name is at fault.
        parent: index of the kind that it is like, or -1.
        given: values of the keys that its own table has, by dotted path from `chip`; with defaults
            where it is like no other.
        values: the same with those that it inherits; what is at fault is missing.
    """

    name: str
    parent: int
    given: Mapping[str, Any]
    values: Mapping[str, Any]

    @property
    def lists_support(self) -> bool:
        """True if its own table lists ops or types."""
        return any(f"chip.{word}" in self.given for what in _LISTS for word in _words(what))


def read_chip_tables(reader: DescriptionReader) -> list[ChipTable]:
    """The kinds of chips of a description with tables `[[chip]]`; `reader` notes faults."""
    listed = cast("list[Any]", reader.description.data[CHIP_TABLE])
    if not 0 < len(listed) <= MOST_KINDS:
        message = f"a package has 1 to {MOST_KINDS} kinds of chips, not {len(listed)}"
        reader.fault("MCM-T005", message, (CHIP_TABLE,))
        return []
    tables = [table for _, table in reader.tables(CHIP_TABLE)]
    if len(tables) < len(listed):
        return []
    names = _names(reader, tables)
    parents = _parents(reader, tables, names)
    keys = {path: key for path, key in reader.form.keys.items() if path.startswith("chip.")}
    keys = {path: key for path, key in keys.items() if path != "chip.kind"} | dict(
        reader.form.kinds
    )
    found: dict[int, ChipTable] = {}
    for index in _parents_first(parents):
        parent = parents[index]
        with reader.inside(CHIP_TABLE, index):
            asked = _optional(keys) if "like" in tables[index] else keys
            given = reader.read({CHIP_TABLE: tables[index]}, asked)
        values = {**(found[parent].values if parent >= 0 else {}), **given}
        for what in _LISTS:
            own = [word for word in _words(what) if f"chip.{word}" in given]
            for word in _words(what) if own else ():
                if word not in own:
                    values.pop(f"chip.{word}", None)
        found[index] = ChipTable(names[index], parent, given, values)
    return [found[index] for index in range(len(tables))]


def _words(what: str) -> tuple[str, str]:
    return f"unsupported_{what}", f"supported_{what}"


def _optional(keys: Mapping[str, Key]) -> dict[str, Key]:
    """The keys without defaults, none of them required."""
    return {
        path: replace(key, default=None, otherwise=key.otherwise or "as in another kind")
        for path, key in keys.items()
    }


def _names(reader: DescriptionReader, tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of each kind; empty where it is missing, wrong, or that of an earlier kind."""
    found: list[str] = []
    for index, table in enumerate(tables):
        name, at = table.get("name"), (CHIP_TABLE, index, "name")
        if name is None:
            message, hint = "this kind of chip has no name", 'add name = "..." to its table'
            reader.fault("MCM-T003", message, at, hint)
        elif not isinstance(name, str):
            pass  # `DescriptionReader.read` notes it
        elif f"{CHIP_TABLE}.{name}" in reader.form.tables:
            message = f"{quote(name)} is a table of chips, and no name of a kind"
            reader.fault("MCM-T008", message, at, "give the kind another name")
        elif not _NAME.fullmatch(name):
            message = f"{quote(name)} is no name of a kind"
            reader.fault("MCM-T005", message, at, "write it with letters, digits, '-' and '_'")
        elif name in found:
            message = f"two kinds have the name {quote(name)}"
            reader.fault("MCM-T008", message, at, "give each kind a name of its own")
        else:
            found.append(name)
            continue
        found.append("")
    return found


def _parents(
    reader: DescriptionReader, tables: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[int]:
    """The kind that each one is like, or -1."""
    parents: list[int] = []
    for index, table in enumerate(tables):
        like, at = table.get("like"), (CHIP_TABLE, index, "like")
        parents.append(-1)
        if isinstance(like, str) and like in names and like:
            parents[index] = names.index(like)
        elif isinstance(like, str):
            message = f"there is no kind of chip {quote(like)}"
            reader.fault("MCM-T008", message, at, _known(like, names))
    for index in range(len(tables)):
        way = [index]
        while (parent := parents[way[-1]]) >= 0 and parent not in way:
            way.append(parent)
        if parent == index:
            shown = " -> ".join(quote(names[kind]) for kind in (*way, index))
            message = f"kinds are like each other in a circle: {shown}"
            hint = "give one of them all its numbers, without `like`"
            reader.fault("MCM-T008", message, (CHIP_TABLE, index, "like"), hint)
            parents[index] = -1
    return parents


def _known(name: str, names: Iterable[str]) -> str:
    known = [one for one in names if one]
    near = difflib.get_close_matches(name[:100], known, n=1)
    if near:
        return f"did you mean {quote(near[0])}?"
    return f"the kinds are {', '.join(map(quote, known))}" if known else "no kind has a name"


def _parents_first(parents: Sequence[int]) -> Iterator[int]:
    done: set[int] = set()
    while len(done) < len(parents):
        for index, parent in enumerate(parents):
            if index not in done and (parent < 0 or parent in done):
                done.add(index)
                yield index


def read_places(
    reader: DescriptionReader, names: Sequence[str], num_chips: int | None
) -> list[int]:
    """The kind of each chip; `reader` notes faults.

    Args:
        reader: of the description.
        names: of the kinds; empty where a name is at fault.
        num_chips: chips of the package, or None where that itself is at fault.

    Returns:
        `[num_chips]`; -1 for a chip of which nothing is said, which is a fault.
    """
    placed = reader.description.data.get(PLACE_TABLE, {})
    if not isinstance(placed, dict):
        return [-1] * (num_chips or 0)  # noted already
    kind_of: dict[int, int] = {}
    for name, listed in cast("dict[str, Any]", placed).items():
        at = (PLACE_TABLE, name)
        if name not in names or not name:
            message = f"there is no kind of chip {quote(name)}"
            reader.fault("MCM-T008", message, at, lambda name=name: _known(name, names))
            continue
        for chip, path in read_chips(reader, listed, at, num_chips):
            if chip in kind_of:
                other = names[kind_of[chip]]
                message = f"chip {chip} is {quote(name)} and {quote(other)}"
                if other == name:
                    message = f"chip {chip} is named twice"
                reader.fault("MCM-T008", message, path, "leave it out in one of the two places")
            kind_of.setdefault(chip, names.index(name))
    rest = [kind for kind, name in enumerate(names) if name and name not in placed]
    left = [chip for chip in range(num_chips or 0) if chip not in kind_of]
    if num_chips is not None:
        _check_rest(reader, names, rest, left)
    return [kind_of.get(chip, rest[0] if rest else -1) for chip in range(num_chips or 0)]


def _check_rest(
    reader: DescriptionReader, names: Sequence[str], rest: Sequence[int], left: Sequence[int]
) -> None:
    """Notes where the chips of a kind are not known, or the kind of a chip."""
    at = (PLACE_TABLE,)
    if len(rest) > 1:
        shown = " and ".join(quote(names[kind]) for kind in rest[:3])
        message = f"the table [{PLACE_TABLE}] says nothing of {shown}: only one kind takes the rest"
        hint = f'add {names[rest[1]]} = [...] with chips, such as [8, "9-15"]'
        reader.fault("MCM-T008", message, at, hint)
    elif rest and not left and names:
        message = f"no chip is left for the kind {quote(names[rest[0]])}"
        reader.fault("MCM-T008", message, at, "leave the kind out, or give it chips")
    elif left and not rest and all(names):
        shown = ", ".join(map(str, left[:5])) + (", ..." if len(left) > 5 else "")
        message = f"{f'chip {shown} is' if len(left) == 1 else f'chips {shown} are'} of no kind"
        hint = "leave one kind out of the table: it takes all that is left"
        reader.fault("MCM-T008", message, at, hint)


def read_chips(
    reader: DescriptionReader, listed: object, at: KeyPath, num_chips: int | None
) -> Iterator[tuple[int, KeyPath]]:
    """The chips that a list of numbers and ranges names, each with its place in the file.

    Faults are noted by `reader`; of a list that was refused already, `()`, there are none.
    """
    if not isinstance(listed, list):
        if listed != ():
            reader.wrong_type(at, listed, "a list")
        return
    last = 2**31 if num_chips is None else num_chips - 1
    entries = cast("list[Any]", listed)
    if not entries:
        reader.fault("MCM-T008", "the list names no chip", at, 'such as [8, "9-15"]')
    if len(entries) > MOST_ENTRIES:
        message = f"the list has {len(entries)} entries, more than {MOST_ENTRIES}"
        reader.fault("MCM-T005", message, at, 'write ranges, such as "9-15"')
        return
    for index, entry in enumerate(entries):
        path = (*at, index)
        ends = _ends(entry)
        if ends is None:
            hint = 'write a number, or a range as "9-15"'
            if isinstance(entry, str):
                reader.fault("MCM-T005", f"{quote(entry)} is no range of chips", path, hint)
            else:
                reader.wrong_type(path, entry, "a whole number or a range")
        elif not 0 <= ends[0] <= ends[1] <= last:
            message = f"there is no chip {ends[0] if not 0 <= ends[0] <= last else ends[1]}"
            message += f": the package has chips 0 to {last}" if num_chips is not None else ""
            if ends[0] > ends[1]:
                message = f"the range from {ends[0]} to {ends[1]} holds no chip"
            reader.fault("MCM-T005", message, path)
        elif num_chips is not None:
            yield from ((chip, path) for chip in range(ends[0], ends[1] + 1))


def _ends(entry: object) -> tuple[int, int] | None:
    """First and last chip of an entry; None where it is none."""
    if isinstance(entry, int) and not isinstance(entry, bool):
        chip = max(-1, min(entry, 2**31 + 1))
        return chip, chip
    found = _RANGE.fullmatch(entry) if isinstance(entry, str) else None
    return (int(found[1]), int(found[2])) if found else None
