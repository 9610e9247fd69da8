"""The records of all runs so far, one line of JSON each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from partition_cases.isolation import Record

from tools.kept_records import KeptRecords


class Records(KeptRecords):
    """Kept records whose figures may be infinite.

    Args:
        path: of the file; made with the first record.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "sources")

    def keep(self, record: Record) -> None:
        """Appends a record."""
        super().keep({k: _finite(v) for k, v in record.items()})


def _finite(value: Any) -> Any:
    """JSON has no infinity: a period that there is not is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
