"""What a forked child does: it answers on a pipe, within its limits, and ends."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from mcm_compiler.processes.interruption import heeded
from mcm_compiler.processes.parent_death_signal import end_with_parent

_CHUNK_BYTES = 1 << 20
_STATM = Path("/proc/self/statm")


class ChildDiedError(Exception):
    """The child ended without an answer; the text says how, such as `SIGSEGV`."""


def read_all(reading: int) -> bytes:
    """Everything up to the end of a pipe."""
    chunks: list[bytes] = []
    while chunk := os.read(reading, _CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)


def serve(
    work: Callable[[], bytes], writing: int, growth_bytes: int, cpu_s: int | None, parent: int
) -> NoReturn:
    """The child: answers on `writing` and ends, without any of the parent's clean-up.

    Args:
        work: as in `bounded_child.answer_of_child`.
        writing: the end of a pipe.
        growth_bytes: as there.
        cpu_s: as there.
        parent: the process that forked, with which this one ends.
    """
    status = 1
    try:
        # What a collection would end here may wait for threads that this process does not have,
        # such as those of a session of onnxruntime. First of all, as imports collect, too.
        gc.disable()
        # A crash is an answer; its trace is no text of this program.
        faulthandler.disable()
        end_with_parent(parent)
        import resource

        # It has nothing to clean up; native code would not even get to that.
        for number in heeded():
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if cpu_s is not None:
            _lower_limit(resource.RLIMIT_CPU, cpu_s)
        if sys.platform == "linux":
            held = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            _lower_limit(resource.RLIMIT_AS, held + growth_bytes)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        # A notebook or a test has put something else in their place.
        sys.stdout = sys.stderr = os.fdopen(null, "w", encoding="utf-8")
        answer = work()
        with os.fdopen(writing, "wb") as stream:
            stream.write(answer)
        status = 0
    finally:
        # Not even a signal gets past it.
        os._exit(status)


def _lower_limit(which: int, wanted: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    known = [hard] if hard != resource.RLIM_INFINITY else []
    resource.setrlimit(which, (min([wanted, *known]), hard))
