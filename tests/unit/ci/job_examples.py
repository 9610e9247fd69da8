"""Jobs for other processes, which import them by their names."""

from __future__ import annotations

import os
import time
from pathlib import Path


def nothing() -> None:
    """Prepares nothing."""


def work(job: str) -> str:
    """Does what the text of the job says."""
    kind, _, rest = job.partition(":")
    if kind == "die":
        os._exit(7)
    if kind == "hang":
        # As a compile does: something lies there until the block is left.
        folder = Path(rest)
        folder.mkdir()
        try:
            time.sleep(60)
        finally:
            folder.rmdir()
    if kind == "slow":
        time.sleep(0.3)
    return f"{job} done"


def lost(job: str, exit_code: int | None) -> str:
    """Says that the process died."""
    return f"{job} lost with {exit_code}"
