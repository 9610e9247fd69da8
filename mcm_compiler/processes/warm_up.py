"""Kernels compiled in a second process, for when nothing is in numba's cache.

numba compiles a kernel when it is first called and keeps it on disk; one lock keeps two threads
from compiling at once. After an installation a first `mcmc compile` would spend most of its time
with that, on one core. `WarmUp` around the work has both cores used: the first kernel that is
really compiled in this process, rather than read from the cache, starts a second process, which
compiles kernels that will be needed later. This process then finds them on disk.

Components name such kernels through entry points of the kind `warm-up`: functions
without arguments that compile the kernels of one component, the last needed first.

Nothing depends on the second process but time: it writes nothing but the cache, its failures are
not looked at, and it ends with this one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, cast

from mcm_compiler.plugin_kinds import installed_entries
from mcm_compiler.processes.lazy_libraries import load_lazily
from mcm_compiler.processes.parent_death_signal import end_with_parent

_PATIENCE_S = 2.0
"""Time that the second process gets to leave no half-written file behind."""


class WarmUp(contextlib.AbstractContextManager["WarmUp"]):
    """Starts the second process when a kernel is compiled, and ends it on exit.

    Attributes:
        process: the second process; None where it wasn't needed, or could not be started.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._leave = contextlib.ExitStack()
        self._tried = False

    def __enter__(self) -> WarmUp:
        if usable_cores() > 1 and sys.executable:
            # Imported late: it takes longer than all else that a verb does before its work.
            from numba.core import event

            start = self.start

            class Starter(event.Listener):
                def on_start(self, event: event.Event) -> None:
                    start()

                def on_end(self, event: event.Event) -> None:
                    pass

            self._leave.enter_context(event.install_listener("numba:compile", Starter()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave.close()
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def start(self) -> None:
        """Starts the second process, once."""
        if self._tried:
            return
        self._tried = True
        # -P: as for a console script, the working directory is not for imports.
        command = [sys.executable, "-P", "-m", __name__, str(os.getpid())]
        nothing = subprocess.DEVNULL
        with contextlib.suppress(OSError):
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, stdin=nothing, stdout=nothing, stderr=nothing
            )


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def main(parent: int) -> None:
    """The second process: compiles what the components name.

    Args:
        parent: process with which this one ends.
    """
    signal.signal(signal.SIGTERM, _stop)
    # An interrupt from the terminal is the first process's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    load_lazily()
    for entry in installed_entries("warm-up"):
        with contextlib.suppress(Exception):
            cast(Callable[[], Any], entry.point.load())()


if __name__ == "__main__":
    main(int(sys.argv[1]))
