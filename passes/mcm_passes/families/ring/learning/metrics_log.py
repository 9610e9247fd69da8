"""Metrics as JSON lines and as CSV, which a resumed run cuts back to where it goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.whole_files import appended_file

Number = int | float | str


class MetricsLog:
    """Rows of the same columns in `metrics.jsonl` and `metrics.csv` of a folder.

    No times stand in it: the same run writes the same bytes.

    Args:
        folder: where the files are.
        columns: names of all columns, in their order.
        log_bytes: lengths that the files are cut back to, by name; they are begun where empty.

    Raises:
        CompileError: MCM-L009 if a file is shorter than that.
    """

    JSON_NAME = "metrics.jsonl"
    CSV_NAME = "metrics.csv"

    def __init__(self, folder: Path, columns: Sequence[str], log_bytes: Mapping[str, int]) -> None:
        self._columns = tuple(columns)
        self._json = folder / self.JSON_NAME
        self._csv = folder / self.CSV_NAME
        for path in (self._json, self._csv):
            _cut(path, log_bytes.get(path.name, 0))
        if not self._csv.stat().st_size:
            _append(self._csv, ",".join(self._columns) + "\n")

    def add(self, rows: Sequence[Mapping[str, Number]]) -> dict[str, int]:
        """Appends rows, and gives the lengths of the files by name."""
        _append(self._json, "".join(json.dumps(dict(row), allow_nan=False) + "\n" for row in rows))
        lines = [",".join(_cell(row[name]) for name in self._columns) + "\n" for row in rows]
        _append(self._csv, "".join(lines))
        return {path.name: path.stat().st_size for path in (self._json, self._csv)}


def _cut(path: Path, length: int) -> None:
    with appended_file(path) as stream:
        if stream.tell() < length:
            raise CompileError(
                Diagnostic(
                    "MCM-L009",
                    f"the file has {stream.tell()} bytes, and had {length} when the state of the "
                    "training was written",
                    at=quote(str(path)),
                    hint="start the training again in another folder",
                )
            )
        stream.truncate(length)


def _append(path: Path, text: str) -> None:
    with appended_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
        stream.flush()
        os.fsync(stream.fileno())


def _cell(value: Number) -> str:
    if not isinstance(value, str):
        return repr(value)
    quoted = value.replace('"', '""')
    return f'"{quoted}"' if any(c in value for c in ',"\n\r') else value
