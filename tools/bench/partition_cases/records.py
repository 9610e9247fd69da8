"""The records of all runs so far, one line of JSON each."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from pathlib import Path
from typing import Any

from partition_cases.isolation import Record

PACKAGES = ("mcm_compiler", "mcm_hardware", "mcm_models", "mcm_passes")


class Records:
    """A file that records are appended to; the last one of a key counts.

    Args:
        path: of the file; made with the first record.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sources = sources_digest()
        self._by_key: dict[str, Record] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    record: Record = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the run before ended in the middle of this line
                self._by_key[record["key"]] = record

    def find(self, key: str, *, fresh: bool = False) -> Record | None:
        """The record of a key; where `fresh`, only one of the code as it is now."""
        record = self._by_key.get(key)
        if record is None or (fresh and record["sources"] != self._sources):
            return None
        return record

    def keep(self, record: Record) -> None:
        """Appends a record."""
        record = {k: _finite(v) for k, v in record.items()} | {"sources": self._sources}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")
        self._by_key[record["key"]] = record


def sources_digest() -> str:
    """A digest of the code that is measured."""
    digest = hashlib.sha256()
    for name in PACKAGES:
        folder = Path(str(importlib.import_module(name).__file__)).parent
        for path in sorted(p for p in folder.rglob("*") if p.suffix in {".py", ".toml"}):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _finite(value: Any) -> Any:
    """JSON has no infinity: a period that there is not is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
