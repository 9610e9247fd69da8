"""The parent-death signal: a process ends when the one that started it does (Linux)."""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Has the system end this process when `parent` dies, as if by SIGTERM; only Linux can."""
    if sys.platform != "linux":
        return
    # NumPy imports it anyway.
    import ctypes

    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
