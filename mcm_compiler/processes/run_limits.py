"""Bounds on what one run in onnxruntime may take.

Sizes and trip counts can come out of a model's own arithmetic, so that no look at the file shows
that a `Tile` makes a terabyte or that a `Loop` never ends. The runtime itself is held back here.

It queues events, among them names of graphs, in a database below the home folder and sends them to
a host, unless an environment variable forbids it before the library is loaded.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcm_compiler.processes.bounded_child import held_bytes

MAX_RUN_GROWTH_BYTES = 6 << 30
"""Memory that one run may add to what the process holds."""

_SHARE_OF_FREE = 7 / 8
"""Of the memory that is free, what one run may take where that is less: a run that fails for want
of memory is reported, and a process that the system kills is not."""

MAX_RUN_S = 8.0
"""Processor time, of all threads, after which a run is asked to stop; it does so between two ops.
Elapsed time would make what is found depend on what else the machine does, and on whether it
sleeps. A run that only waits is waited for, until somebody sends a signal."""

EXTRA_S_PER_BYTE = 60.0 / (1 << 30)
"""Further time for each byte of a model's file and its external data: large models take longer, and
small files that take long are made to."""

_POLL_S = 0.25

_MEMINFO = Path("/proc/meminfo")
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.stat"), "anon"),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.stat"),
        "total_rss",
    ),
)
"""Of both versions of control groups: a container's limit, and what it holds that is no cache."""

_one_at_a_time = threading.Lock()


@dataclass
class RunWatch:
    """A run that is being watched.

    Attributes:
        options: `onnxruntime.RunOptions` to run with.
        max_s: processor time that it has.
        overdue: whether the run was asked to stop.
    """

    options: Any
    max_s: float
    overdue: bool = False
    _over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Waits until the run is over, or asks it to stop."""
        computing = time.process_time()
        while not self._over.wait(min(_POLL_S, self.max_s)):
            if time.process_time() - computing > self.max_s:
                self.overdue = True
                self.options.terminate = True
                return

    def end(self) -> None:
        """Ends the watch."""
        self._over.set()


@contextmanager
def watched_run(model_bytes: int = 0) -> Generator[RunWatch]:
    """Bounds time and memory of a run inside the block.

    Memory is bounded on Linux only, by the limit of the address space; a run that hits it fails
    like any other allocation.

    Args:
        model_bytes: size of the model's file and its external data.
    """
    ort = quiet_onnxruntime()

    watch = RunWatch(ort.RunOptions(), run_seconds(model_bytes))
    thread = threading.Thread(target=watch.watch, daemon=True)
    thread.start()
    try:
        with _bounded_address_space():
            yield watch
    finally:
        watch.end()
        thread.join()


@contextmanager
def _bounded_address_space() -> Generator[None]:
    if sys.platform != "linux" or not _one_at_a_time.acquire(blocking=False):
        yield
        return
    import resource

    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        bound = min([held_bytes() + run_growth_bytes(), *known])
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    finally:
        _one_at_a_time.release()


def run_seconds(model_bytes: int) -> float:
    """Processor time that one run of a model may take."""
    return MAX_RUN_S + EXTRA_S_PER_BYTE * model_bytes


def run_growth_bytes() -> int:
    """Memory that one run may add to what the process holds now."""
    return int(min(MAX_RUN_GROWTH_BYTES, _SHARE_OF_FREE * free_memory_bytes()))


def free_memory_bytes() -> float:
    """Memory that this machine or container can still give; infinite if unknown."""
    free = [math.inf]
    with suppress(OSError, ValueError, KeyError):
        free.append(_numbers(_MEMINFO)["MemAvailable:"] << 10)
    for limit, stat, key in _GROUPS:
        with suppress(OSError, ValueError, KeyError):  # no limit is the word "max"
            free.append(int(limit.read_text("ascii")) - _numbers(stat)[key])
    return max(0, min(free))


def _numbers(path: Path) -> dict[str, int]:
    """Lines of a name and a number, and perhaps a unit."""
    lines = [line.split() for line in path.read_text("ascii").splitlines()]
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}


TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"
"""Read by onnxruntime when it is loaded; a user's setting stays."""


def quiet_onnxruntime() -> Any:
    """The module, with telemetry off unless a user has set otherwise; the environment is kept."""
    if "onnxruntime" in sys.modules or TELEMETRY_VARIABLE in os.environ:
        import onnxruntime

        return onnxruntime
    os.environ[TELEMETRY_VARIABLE] = "1"
    try:
        import onnxruntime

        # It was off while the library was loaded; the call keeps it off.
        if hasattr(onnxruntime, "disable_telemetry_events"):
            onnxruntime.disable_telemetry_events()
        return onnxruntime
    finally:
        del os.environ[TELEMETRY_VARIABLE]
