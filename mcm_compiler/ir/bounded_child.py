"""Work on an untrusted model in a forked child, with an end to its memory and its time.

A fork costs a few milliseconds, and the child sees the parent's objects without a copy.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

_CHUNK_BYTES = 1 << 20
_STATM = Path("/proc/self/statm")


class ChildDiedError(Exception):
    """The child ended without an answer; the text says how, such as `SIGSEGV`."""


def can_fork() -> bool:
    """Whether this system has children of this kind."""
    return sys.platform != "win32"


def answer_of_child(
    work: Callable[[], bytes],
    growth_bytes: int,
    cpu_s: int | None = None,
    wall_s: float | None = None,
) -> bytes:
    """What `work` returns in a child that can write nothing to the terminal.

    Args:
        work: its exceptions end the child.
        growth_bytes: memory that the child may take beyond what it starts with; kept on Linux.
        cpu_s: seconds of computing after which the child is ended.
        wall_s: seconds after which it is ended even if it only waits. A busy machine must not
            come near to it, because what is learnt would depend on the clock.

    Raises:
        ChildDiedError: if there is no answer.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _serve(work, writing, growth_bytes, cpu_s)
    os.close(writing)
    answered = False
    try:
        answer = _read_all(reading, wall_s)
        answered = True
    finally:
        os.close(reading)
        if not answered:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    number = os.waitstatus_to_exitcode(status)
    if number != 0:
        how = signal.Signals(-number).name if number < 0 else f"exit status {number}"
        raise ChildDiedError(how)
    return answer


def _read_all(reading: int, wall_s: float | None) -> bytes:
    end = None if wall_s is None else time.monotonic() + wall_s
    chunks: list[bytes] = []
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([reading], [], [], left)[0]:
            raise ChildDiedError(f"no answer after {wall_s:.0f} s")
        chunk = os.read(reading, _CHUNK_BYTES)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _serve(work: Callable[[], bytes], writing: int, growth_bytes: int, cpu_s: int | None) -> None:
    """The child: answers on `writing` and ends, without any of the parent's clean-up."""
    status = 1
    try:
        import resource

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
        os._exit(status)


def _lower_limit(which: int, wanted: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    known = [hard] if hard != resource.RLIM_INFINITY else []
    resource.setrlimit(which, (min([wanted, *known]), hard))
