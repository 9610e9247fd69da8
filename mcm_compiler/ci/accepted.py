"""The accepted baseline: figures that later builds are compared with until others are accepted.

Each compile has a file of its own, which is replaced at once, so that an interrupted build leaves
the figures before or those after it. The file has a hash of what it holds: one that was damaged is
an error, not a compile without a baseline.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mcm_compiler.ci.figures import Figures
from mcm_compiler.processes.whole_files import write_whole
from mcm_compiler.text.bounded_json import UnreadableError, parse_json, read_bounded
from mcm_compiler.text.json_records import record_of

FILE = "accepted.json"
"""Name of the file in the folder of a compile."""

MAX_BYTES = 1 << 28
"""Of the file, which has the time of every kernel."""


@dataclass(frozen=True)
class Accepted:
    """What was accepted of one compile.

    Attributes:
        report_sha256: hash of its report.
        figures: of it.
    """

    report_sha256: str
    figures: Figures


def write_accepted(path: Path, accepted: Accepted) -> None:
    """Replaces the accepted figures of a compile.

    Raises:
        CompileError: as `write_whole`; MCM-A002 if the folder cannot be made.
    """
    data = msgspec.to_builtins(accepted)
    text = json.dumps({"sha256": _digest(data), "accepted": data}, indent=1)
    write_whole(path, f"{text}\n".encode())


def read_accepted(path: Path) -> Accepted:
    """The accepted figures of a compile.

    Raises:
        UnreadableError: if the file is not as it was written.
    """
    data = parse_json(read_bounded(path, MAX_BYTES))
    if not isinstance(data, dict) or data.get("sha256") != _digest(data.get("accepted")):
        raise UnreadableError("its hash is not that of what it holds")
    found = record_of(data["accepted"], Accepted)
    speeds = (found.figures.throughput_per_s, found.figures.period_s)
    if not all(math.isfinite(speed) and speed > 0 for speed in speeds):
        raise UnreadableError("its throughput or its period is not a positive number")
    return found


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
