"""Work on an untrusted model in a forked child, with an end to its memory and its time.

A fork costs a few milliseconds, and the child sees the parent's objects without a copy. Where a
library has started threads, a process of its own forks instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from mcm_compiler.processes.forked_child import ChildDiedError, read_all, serve

THREADED_LIBRARIES = ("jaxlib", "distributed", "torch", "tensorflow")
"""Once loaded they have threads; a lock that one of them holds is never freed in a fork."""


def can_fork() -> bool:
    """Whether this system has children of this kind."""
    return sys.platform != "win32"


def answer_of_child(
    work: Callable[[], bytes], growth_bytes: int, cpu_s: int | None = None
) -> bytes:
    """What `work` returns in a child that can write nothing to the terminal.

    The limits are on memory and on computing; a child that waits is waited for, so that what is
    learnt does not depend on the clock. Where this process may not fork (`may_fork`), the child is
    one of a process that was started for that (`child_server`), and `work` has to be picklable.

    Args:
        work: its exceptions end the child.
        growth_bytes: memory that the child may take beyond what it starts with; kept on Linux.
        cpu_s: seconds of computing after which the child is ended.

    Raises:
        ChildDiedError: if there is no answer.
    """
    if not may_fork():
        from mcm_compiler.processes.child_server import answer_of_server

        number, answer = answer_of_server(work, growth_bytes, cpu_s)
    else:
        number, answer = _answer_of_fork(work, growth_bytes, cpu_s)
    if number != 0:
        how = signal.Signals(-number).name if number < 0 else f"exit status {number}"
        raise ChildDiedError(how)
    return answer


def may_fork() -> bool:
    """Whether no library of this process is known to have threads that a fork would break."""
    return not any(name in sys.modules for name in THREADED_LIBRARIES)


def _answer_of_fork(
    work: Callable[[], bytes], growth_bytes: int, cpu_s: int | None
) -> tuple[int, bytes]:
    """The exit code of the child, and its answer."""
    parent = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        serve(work, writing, growth_bytes, cpu_s, parent)
    os.close(writing)
    answered = False
    try:
        answer = read_all(reading)
        answered = True
    finally:
        os.close(reading)
        if not answered:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), answer
