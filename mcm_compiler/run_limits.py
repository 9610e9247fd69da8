"""Bounds on what one run in onnxruntime may take.

Sizes and trip counts can come out of a model's own arithmetic, so that no look at the file tells
that a `Tile` makes a terabyte or that a `Loop` never ends. The runtime itself is held back here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_RUN_GROWTH_BYTES = 6 << 30
"""Memory that one run may add to what the process holds."""

MAX_RUN_S = 60.0
"""Time after which a run is told to stop; it does so between two ops."""

_STATM = Path("/proc/self/statm")
_one_at_a_time = threading.Lock()


@dataclass
class RunWatch:
    """A run that is being watched.

    Attributes:
        options: `onnxruntime.RunOptions` to run with.
        overdue: whether the run was told to stop.
    """

    options: Any
    overdue: bool = False

    def stop(self) -> None:
        """Tells the run to stop."""
        self.overdue = True
        self.options.terminate = True


@contextmanager
def watched_run() -> Generator[RunWatch]:
    """Bounds time and memory of a run inside the block.

    Memory is bounded on Linux only, by the limit of the address space; a run that hits it fails
    like any other allocation.
    """
    import onnxruntime as ort

    watch = RunWatch(ort.RunOptions())
    timer = threading.Timer(MAX_RUN_S, watch.stop)
    timer.daemon = True
    timer.start()
    try:
        with _bounded_address_space():
            yield watch
    finally:
        timer.cancel()


@contextmanager
def _bounded_address_space() -> Generator[None]:
    if sys.platform != "linux" or not _one_at_a_time.acquire(blocking=False):
        yield
        return
    import resource

    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        held = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        bound = min([held + MAX_RUN_GROWTH_BYTES, *known])
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    finally:
        _one_at_a_time.release()
