"""Processes end with the one that started them: parent-death signal, orphans; Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36

ORPHAN_GRACE_S = 0.5
"""Time for those that end with their parent to do so."""

_POLL_S = 0.02


def adopt_orphans() -> None:
    """Makes this process the parent of all descendants whose own parent dies."""
    if sys.platform != "linux":
        return
    # Not needed by verbs that start nothing.
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Waits for all children a moment, kills what is left of them, and of theirs."""
    if sys.platform != "linux":
        return
    start_s = time.monotonic()
    # One that the system cannot end, such as for a disk that hangs, is left to it.
    while _are_left() and time.monotonic() < start_s + 2 * ORPHAN_GRACE_S:
        if time.monotonic() >= start_s + ORPHAN_GRACE_S:
            for child in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(_POLL_S)


def _are_left() -> bool:
    """Return whether there are children; those that have ended are waited for."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def _children() -> list[int]:
    own = os.getpid()
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file,
            ):
                # The name of the program, in brackets, may hold anything.
                if int(file.read().rpartition(")")[2].split()[1]) == own:
                    found.append(int(name))
    return found


_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """Has the system end this process when `parent` dies, by a signal; only Linux can."""
    if sys.platform != "linux":
        return
    # NumPy imports it anyway.
    import ctypes

    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
