"""Records of long measurements: a file that they are appended to, with a digest of the code."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]

PACKAGES = ("mcm_compiler", "mcm_hardware", "mcm_models", "mcm_passes")
LATER_FIELDS = {"unpacking": "load"}
"""Fields that types got after records were kept, with the value that stands for what was before."""


class KeptRecords:
    """A file of one JSON line per record, which lines are appended to; the last of a key counts.

    Args:
        path: of the file; made with the first record.
        code_field: of a record, for the digest of the code that it was measured with.

    Attributes:
        code: that digest, of the code as it is now.
    """

    def __init__(self, path: Path, code_field: str) -> None:
        self._path = path
        self._code_field = code_field
        self._by_key: dict[str, Record] = {}
        self.code = code_digest()
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
        if record is None or (fresh and record[self._code_field] != self.code):
            return None
        return record

    def all(self) -> list[Record]:
        """The records, each of another key."""
        return [*self._by_key.values()]

    def keep(self, record: Record) -> None:
        """Appends a record, which has a `key`."""
        record = record | {self._code_field: self.code}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")
        self._by_key[record["key"]] = record


def digest_of(*inputs: Any) -> str:
    """A digest of the values that decide a record, for its key.

    Of dataclasses it takes fields by name, and leaves out those that are off: None, False, 0 and
    empty. So a text with another comment, and a type with a new option, keep their digests.
    """
    text = json.dumps([_plain(value) for value in inputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        stated = {name: one for name, one in value.items() if LATER_FIELDS.get(name) != one}
        return {name: found for name, one in stated.items() if (found := _plain(one))}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def code_digest() -> str:
    """A digest of the code that is measured."""
    digest = hashlib.sha256()
    for name in PACKAGES:
        folder = Path(str(importlib.import_module(name).__file__)).parent
        for path in sorted(p for p in folder.rglob("*") if p.suffix in {".py", ".toml"}):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
