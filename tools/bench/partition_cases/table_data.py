"""Records as the data that is committed: cases with their cells, packages, placements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partition_cases.isolation import Job, Record
from partition_cases.records import Records

NOT_COMMITTED = frozenset({"key", "kind", "case", "sources", "model", "package", "source"})
"""Entries of a record that its place in the data tells, or that nobody reads there."""


def as_data(
    tightness: Sequence[Job], cells: Sequence[Job], records: Records, context: dict[str, Any]
) -> dict[str, Any]:
    """What is committed, of those jobs that have a record.

    Returns:
        `context` with the digests of the code that was measured and how many records each has,
        `missing` (jobs without a record), `tightness`, `cases`, and `placements`.
    """
    found = {job.key: record for job in cells if (record := records.find(job.key)) is not None}
    tight = [record for job in tightness if (record := records.find(job.key)) is not None]
    cases: dict[str, dict[str, Any]] = {}
    placements: list[Record] = []
    for record in found.values():
        if record["kind"] == "case":
            cases[record["case"]] = _entry(record, "model", "package") | {"cells": []}
    for record in found.values():
        if record["kind"] == "strategy" and record["case"] in cases:
            cases[record["case"]]["cells"].append(_entry(record))
        elif record["kind"] == "placement":
            placements.append(_entry(record))
    sources: dict[str, int] = {}
    for record in (*tight, *found.values()):
        sources[record["sources"]] = sources.get(record["sources"], 0) + 1
    missing = len(tightness) + len(cells) - len(tight) - len(found)
    return {
        "context": context | {"sources": sources},
        "missing": missing,
        "tightness": [_entry(record, "model") for record in tight],
        "cases": list(cases.values()),
        "placements": placements,
    }


def best_bound_s(case: Any) -> float:
    """The best bound that any cell proved; it holds for all of them."""
    return max([case["bound_s"], *(c["bound_s"] for c in case["cells"] if has_period(c))])


def has_period(cell: Any) -> bool:
    """Whether the strategy found a partition."""
    return cell["status"] == "found"


def of_level(case: Any, level: int) -> list[Any]:
    """The cells of a case with one level's effort."""
    return [cell for cell in case["cells"] if cell["level"] == level]


def _entry(record: Record, *kept: str) -> Record:
    return {k: v for k, v in record.items() if k in kept or k not in NOT_COMMITTED}
