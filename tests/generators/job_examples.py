"""Jobs for other processes, which import them by their names."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mcm_compiler.processes.crash_journal import CrashJournal, doing
from mcm_compiler.processes.private_folders import private_folder


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
    if kind == "crash":
        with doing(f"model {job}"), doing("pass 'x'"), private_folder(Path(rest)):
            os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "slow":
        time.sleep(0.3)
    return f"{job} done"


def lost(job: str, exit_code: int | None, journal: CrashJournal) -> str:
    """Says that the process died, and where."""
    where = f" in {', '.join(journal.steps)}" if journal.steps else ""
    return f"{job} lost with {exit_code}{where}"
