"""Where two lowered programs differ first, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.diagnostics import quote


def first_difference(lowered: LoweredProgram, stored: LoweredProgram) -> tuple[str, str] | None:
    """The first place where two programs differ, and how; None where they are equal.

    Args:
        lowered: what lowering gives.
        stored: what a folder holds.
    """
    ours = {chip.chip: chip for chip in lowered.chips}
    theirs = {chip.chip: chip for chip in stored.chips}
    for chip in sorted({*ours, *theirs}):
        place = f"chip {chip}"
        if chip not in theirs:
            return place, "it is missing"
        if chip not in ours:
            return place, "lowering gives no such chip"
        left, right = ours[chip], theirs[chip]
        found = (
            _in_rows(f"{place}, kernel", left.kernels, right.kernels)
            or _in_rows(f"{place}, buffer", left.buffers, right.buffers)
            or _in_record(place, left, right)
        )
        if found is not None:
            return found
    return (
        _in_rows("transfer", lowered.transfers, stored.transfers)
        or _in_rows("overflow", lowered.overflows, stored.overflows)
        or _in_record("program", lowered, stored)
    )


def _in_rows(place: str, lowered: Sequence[Any], stored: Sequence[Any]) -> tuple[str, str] | None:
    for index, (left, right) in enumerate(zip(lowered, stored, strict=False)):
        if (found := _in_record(f"{place} {index}", left, right)) is not None:
            return found
    if len(lowered) != len(stored):
        return f"{place}s", f"there are {len(stored)}, lowering gives {len(lowered)}"
    return None


def _in_record(place: str, lowered: Any, stored: Any) -> tuple[str, str] | None:
    for entry in fields(lowered):
        ours, theirs = getattr(lowered, entry.name), getattr(stored, entry.name)
        if ours != theirs and not _holds_records(ours):
            return place, f"{entry.name} is {_short(theirs)}, lowering gives {_short(ours)}"
    return None


def _holds_records(value: Any) -> bool:
    """Whether a field holds further records, which are compared one by one."""
    items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    return any(is_dataclass(item) for item in items)


def _short(value: Any) -> str:
    return quote(value if isinstance(value, str) else repr(value))
