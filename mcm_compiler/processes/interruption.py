"""Signals that end a command: recorded when they arrive, and acted on at safe points.

A handler raises, so that all `finally` clauses run. Python drops what is raised in a callback of a
library or in a destructor. So the signal is noted as well, and stages ask for it as they begin, and
before anything becomes visible to others.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Signals that end a command."""

SAME_SIGNAL_S = 1.0
"""A signal that comes again within this time is the same one on another way: a terminal signals the
whole group of processes, of which one hands on what it got."""


class EndingError(BaseException):
    """End of a command by other causes than signals; it passes all that handles errors."""


class _State:
    """Signal state of this process.

    Attributes:
        number: the first that came, or None.
        last_s: when the last one came, on the monotonic clock.
        one_output: whether all work is done as soon as one output is in its place.
        done: whether it is.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.last_s = -SAME_SIGNAL_S
        self.one_output = False
        self.done = False


_state = _State()


def heeded(numbers: tuple[int, ...] = ENDING) -> list[int]:
    """Those that were not ignored when this process was started, as `nohup` does with SIGHUP."""
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def line_of(number: int) -> str:
    """Printed name: `interrupted`, or the name of a signal that is not of a keyboard."""
    if number == signal.SIGINT:
        return "interrupted"
    return f"interrupted by {signal.Signals(number).name}"


def end_at_once() -> None:
    """From now on a signal ends this process with a line: for when there is nothing to clean up."""
    for number in heeded():
        signal.signal(number, _exit_at_once)


def _exit_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    say(line_of(number))
    os._exit(128 + number)


def say(line: str) -> None:
    """Writes a line to standard error past all buffers, if it can be written."""
    try:
        os.write(2, f"{line}\n".encode())
    except OSError:
        return


def end_by_raising(silent: bool) -> None:
    """From now on a signal leaves through all `finally` clauses.

    Args:
        silent: nothing more is printed then, because another process reports to the user.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        before, _state.last_s = _state.last_s, now
        if _state.done or now - before < SAME_SIGNAL_S:
            return
        _state.number = _state.number or number
        if silent:
            _close_streams()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for number in heeded():
        signal.signal(number, handle)


def _close_streams() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)


def received() -> int | None:
    """The signal that has asked this process to end, or None."""
    return _state.number


def stop_if_asked() -> None:
    """Raises again what came and was dropped.

    Raises:
        SystemExit: with 128 and the number of the signal.
    """
    if _state.number is not None and not _state.done:
        raise SystemExit(128 + _state.number)


def asked_to_end(leaving: SystemExit) -> bool:
    """Return whether a signal leaves in this way, rather than `sys.exit` in foreign code."""
    if _state.number is not None:
        return True
    # Any object may be the code of foreign code.
    return isinstance(leaving.code, int) and leaving.code in {128 + number for number in ENDING}


def ends_the_command(error: BaseException) -> bool:
    """Return whether the user or the system ends the command, which is no fault."""
    if isinstance(error, SystemExit):
        return asked_to_end(error)
    return isinstance(error, (KeyboardInterrupt, EndingError))


def expect_one_output() -> None:
    """Record that the command's work is done when its one output is in its place."""
    _state.one_output = True


def output_is_there() -> None:
    """Record that an output has taken its place."""
    _state.done = _state.done or _state.one_output


def all_is_done() -> None:
    """From now on signals come too late."""
    _state.done = True


@contextmanager
def becoming_visible() -> Generator[None]:
    """A block in which an output takes its place, with no signal amid it.

    A signal that came before stops it; one that comes later finds the work done, if the block has
    called `output_is_there`, and one output was expected.

    Raises:
        SystemExit: as `stop_if_asked`.
    """
    if not hasattr(signal, "pthread_sigmask"):
        stop_if_asked()
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        # What came before the mask is handled by now, or noted.
        stop_if_asked()
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def deaf_children() -> Generator[None]:
    """A block that starts processes which hear nothing of a terminal, from their first moment.

    Else one that is still importing ends with a stack trace next to the line of whoever started it,
    who is to end it. They inherit the mask.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # The first start of a process also starts a tracker, which resets the mask that follows.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
