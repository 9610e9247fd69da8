"""Sections of `docs/results/hierarchical-planner.md`, and the records they are written from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from mcm_compiler.processes.staging import write_whole

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "results" / "hierarchical-planner.md"

VERSIONS = ("mcm-compiler", "numba", "numpy", "onnx", "onnx-ir")


def record_path(name: str) -> Path:
    """Where the record of a script is."""
    return ROOT / "tools" / "reproduce" / "data" / f"{name}.json"


def write_record(
    name: str, command: str, rows: Sequence[dict[str, Any]], keys: Sequence[str] = ("graph",)
) -> None:
    """Writes rows; those of an earlier record whose `keys` are not among them stay."""
    path = record_path(name)
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    if path.exists():
        kept = {
            _key(row, keys): row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
        }
    kept |= {_key(row, keys): row for row in rows}
    result = {
        "command": command,
        "versions": {package: metadata.version(package) for package in VERSIONS},
        "rows": list(kept.values()),
    }
    write_whole(path, (json.dumps(result, indent=1) + "\n").encode())


def _key(row: dict[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


def read_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a record."""
    return json.loads(record_path(name).read_text(encoding="utf-8"))["rows"]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns but the first are numbers."""
    lines = [header, ["---", *(["---:"] * (len(header) - 1))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_section(name: str, text: str, path: Path = PAGE) -> None:
    """Puts a text between the marks of a section of a page.

    Raises:
        ValueError: if the page has no such section.
    """
    page = path.read_text(encoding="utf-8")
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"{path.name} has no section {name!r}")
    after = rest[rest.index(end) :]
    path.write_text(f"{before}{begin}\n{text.strip()}\n\n{after}", encoding="utf-8")
