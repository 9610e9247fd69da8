"""Several forked children at once, each with a piece of work of its own.

They see all that the parent holds without a copy: a model that was read, kernels that were
compiled. Their answers are bytes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence

from mcm_compiler.processes.forked_child import serve

_CHUNK_BYTES = 1 << 20
_NO_LIMIT_BYTES = 1 << 50


def answers_of_children(
    works: Sequence[Callable[[], bytes]], at_once: int
) -> Generator[tuple[int, bytes | int]]:
    """Runs each piece of work in a child that can write nothing to the terminal.

    Children end with this process, and with the generator.

    Args:
        works: an exception ends the child.
        at_once: children that run at the same time.

    Yields:
        `(index, answer)` as they come; instead of an answer the exit code of a child that died
        without one, negative for a signal.
    """
    waiting = deque(range(len(works)))
    running: dict[int, tuple[int, int, list[bytes]]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < max(at_once, 1):
                index = waiting.popleft()
                reading, child = _forked(works[index], list(running))
                running[reading] = (index, child, [])
            for reading in select.select(list(running), [], [])[0]:
                index, child, chunks = running[reading]
                if chunk := os.read(reading, _CHUNK_BYTES):
                    chunks.append(chunk)
                    continue
                del running[reading]
                os.close(reading)
                _, status = os.waitpid(child, 0)
                code = os.waitstatus_to_exitcode(status)
                yield index, b"".join(chunks) if code == 0 else code
    finally:
        for reading, (_, child, _) in running.items():
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _forked(work: Callable[[], bytes], others: Sequence[int]) -> tuple[int, int]:
    """A child at work: where its answer is read, and its number."""
    parent = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for one in (reading, *others):
            os.close(one)
        serve(work, writing, _NO_LIMIT_BYTES, None, parent)
    os.close(writing)
    return reading, child
