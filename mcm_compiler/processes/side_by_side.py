"""Calls side by side in threads, for work that kernels do without the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Results of a function for each item, in their order, computed on all cores.

    Args:
        function: does not depend on what else it is asked.
        items: taken from the first on.

    Raises:
        Exception: what it raised for the first item that it failed for; what had not begun by then
            is left out.
    """
    threads = min(usable_cores(), len(items))
    if threads < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(threads)
    try:
        asked = [pool.submit(function, item) for item in items]
        return [answer.result() for answer in asked]
    finally:
        pool.shutdown(cancel_futures=True)
