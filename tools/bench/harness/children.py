"""Measuring the command line as its user meets it: a fresh process each time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.02
"""Time between two looks at the memory of a child."""

MCMC = Path(sys.executable).with_name("mcmc")
"""The command line of the environment that runs the benchmark."""


class ChildFailedError(Exception):
    """A measured command exited with another status than 0; the text holds what it said."""


@dataclass(frozen=True)
class Child:
    """One finished process.

    Attributes:
        seconds: wall time from start to exit.
        peak_rss_bytes: largest resident set of the process or of one that it has waited for (the
            command line works in a child of its own), from the kernel's own account.
        peak_beyond_bytes: the same without the pages of files mapped from the excluded folder,
            sampled every `POLL_S`; None where it was not asked for.
        stdout: what it printed.
        cpu_s: time on all cores together, of the process and of those that it has waited for; it
            hardly depends on what else the machine does.
    """

    seconds: float
    peak_rss_bytes: int
    peak_beyond_bytes: int | None
    stdout: str
    cpu_s: float = 0.0


def run_child(
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    beyond: Path | None = None,
) -> Child:
    """Runs `command` to its end.

    Args:
        command: program and arguments.
        environment: variables added to those of this process.
        beyond: also sample the resident set without files mapped from this folder (Linux).
            Sampling slows the child a little, so that its `seconds` should not be reported.

    Raises:
        ChildFailedError: if the command fails.
    """
    words = [str(word) for word in command]
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        start = time.perf_counter()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **(environment or {})},
        )
        sampler = _Sampler(process.pid, beyond) if beyond is not None else None
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        peak_beyond = sampler.stop() if sampler is not None else None
        stdout.seek(0)
        stderr.seek(0)
        if process.returncode != 0:
            raise ChildFailedError(
                f"'{' '.join(words)}' exits with {process.returncode}\n{stderr.read()}"
            )
        # The kernel counts in KiB on Linux and in bytes on macOS.
        unit = 1 if sys.platform == "darwin" else 1024
        cpu_s = usage.ru_utime + usage.ru_stime
        return Child(seconds, usage.ru_maxrss * unit, peak_beyond, stdout.read(), cpu_s)


class _Sampler:
    """A thread that follows the memory of a process and its descendants until told to stop."""

    def __init__(self, pid: int, excluded: Path) -> None:
        self._pid = pid
        self._excluded = str(excluded.resolve()) + os.sep
        self._peak_bytes = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._stopped.set()
        self._thread.join()
        if self._peak_bytes == 0:
            raise ChildFailedError("the memory of the process could not be sampled")
        return self._peak_bytes

    def _follow(self) -> None:
        while not self._stopped.wait(POLL_S):
            for pid in process_tree(self._pid):
                try:
                    text = Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace")
                except OSError:
                    continue  # it has just ended
                self._peak_bytes = max(self._peak_bytes, resident_beyond(text, self._excluded))


def process_tree(pid: int) -> list[int]:
    """A process and its descendants, parents first (Linux); just the process if it has ended."""
    found = [pid]
    for member in found:
        try:
            for children in Path(f"/proc/{member}/task").glob("*/children"):
                found += map(int, children.read_text(encoding="ascii").split())
        except OSError:
            continue  # it or a thread of it has just ended
    return found


def resident_beyond(smaps: str, excluded: str) -> int:
    """Resident bytes of all mappings whose file does not lie under `excluded`.

    Args:
        smaps: text of `/proc/PID/smaps`.
        excluded: a folder, ending in a separator.
    """
    total_kib = 0
    counted = True
    for line in smaps.splitlines():
        if line.startswith("Rss:"):
            total_kib += int(line.split()[1]) if counted else 0
        elif line[:1] in "0123456789abcdef":
            # "address perms offset dev inode path": five fields before the path.
            fields = line.split(maxsplit=5)
            counted = len(fields) < 6 or not fields[5].startswith(excluded)
    return total_kib * 1024
