"""Switching Python's cyclic garbage collector off while millions of lasting objects are made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """No collection within the block, whose objects then count as old.

    A collector that runs while a graph grows looks at all of it again and again. What a block has
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
