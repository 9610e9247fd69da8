"""Garbage collection: paused while lasting objects are made; memory of earlier work given back.

Graphs are full of cycles, and Python looks for those by the number of objects, whatever arrays hang
on them; the allocator keeps what was freed between things that live on. A process that compiles
one model after the other would thus hold many of them.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

GROWTH_BYTES = 32 << 20
"""Growth of a process since the last collection that makes another one worth its time."""

_STATM = Path("/proc/self/statm")


class _Reclaimer:
    """Memory that the process used after the last collection, or at the first look."""

    def __init__(self) -> None:
        self.kept_bytes: int | None = None

    def reclaim(self) -> None:
        now = _anonymous_bytes()
        if now is None:
            return
        if self.kept_bytes is None or now < self.kept_bytes:
            self.kept_bytes = now
        if now - self.kept_bytes < GROWTH_BYTES:
            return
        gc.collect()
        _trim()(0)
        self.kept_bytes = _anonymous_bytes()


reclaim = _Reclaimer().reclaim
"""Collects garbage where the process has grown; where the system does not say, Python's rule holds.

It is called before a compile, a placement or a check, and behind one whose result is not kept.
"""

LARGE_BYTES = 512 << 20
"""Memory of a process from which on it is worth the time to give freed parts of it back."""


def give_back() -> None:
    """Returns memory that native code has freed to the system, in a process that holds much.

    Protobufs and sessions of a large model are freed between things that live on; the next ones
    would come on top of them.
    """
    if (_anonymous_bytes() or 0) > LARGE_BYTES:
        _trim()(0)


def _anonymous_bytes() -> int | None:
    """Memory in use that no file backs."""
    try:
        _, resident, shared, *_ = map(int, _STATM.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


@functools.cache
def _trim() -> Callable[[int], object]:
    """The allocator's function that gives free memory back, where it has one."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim if trim is not None else lambda _: None


@contextmanager
def collector_paused() -> Generator[None]:
    """No collection within the block, whose objects then count as old.

    A collector that runs while a graph grows looks at all of it repeatedly. What a block has
    frozen by itself is left alone.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            # Moves all objects to the oldest generation without looking at any of them.
            gc.freeze()
            gc.unfreeze()
        if running:
            gc.enable()
