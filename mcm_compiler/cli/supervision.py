"""A light parent process, which reports to the user when native code ends the working process.

Kernels of a library can divide by zero, read out of bounds, or run out of memory in a thread of
their own; the system can kill what takes too much. The parent is forked off before anything heavy
is imported, waits, hands signals on, and exits as its child does. When the child dies, it says
where, from what the child recorded ahead, and removes what is half-written. A signal that the child
does not follow soon, because native code has it, ends the child all the same.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

import click

from mcm_compiler.cli.show import FAILURE_EXIT, show_diagnostics
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.processes.crash_journal import CrashJournal, tell_to
from mcm_compiler.processes.interruption import ENDING, end_by_raising, heeded, line_of, say
from mcm_compiler.processes.orphans import adopt_orphans, end_orphans, end_with_parent

SUPERVISED_VERBS = frozenset(
    {
        "build",
        "compile",
        "explore",
        "init",
        "check",
        "run",
        "measure",
        "simulate",
        "opt",
        "zoo",
        "parallelize",
        "partition",
        "train",
        "new",
    }
)
"""The verbs that may work for long, or touch models."""

SUPERVISION_VARIABLE = "MCMC_SUPERVISE"
"""Environment variable; 0 does the work in the first process, for debuggers and profilers."""

GRACE_S = 2.0
"""Time for the child to clean up after a signal before it is killed, and this process does it."""


class SharedJournal:
    """The crash journal of a child in memory that it shares with its parent."""

    SLOT_BYTES = 1 << 17
    _LENGTH_BYTES = 4

    def __init__(self) -> None:
        # The first byte tells which of two slots is whole: a crash may come amid writing.
        self._memory = mmap.mmap(-1, 1 + 2 * self.SLOT_BYTES)

    def write(self, journal: CrashJournal) -> None:
        """Replaces what is there, unless a journal is longer than a slot."""
        data = journal.to_bytes()
        if len(data) > self.SLOT_BYTES - self._LENGTH_BYTES:
            return
        slot = 1 - (self._memory[0] & 1)
        start = 1 + slot * self.SLOT_BYTES
        end = start + self._LENGTH_BYTES + len(data)
        self._memory[start:end] = len(data).to_bytes(self._LENGTH_BYTES, "little") + data
        self._memory[0] = slot

    def read(self) -> CrashJournal:
        """Read the last record; nothing where native code has overwritten it."""
        start = 1 + (self._memory[0] & 1) * self.SLOT_BYTES
        text = start + self._LENGTH_BYTES
        length = int.from_bytes(self._memory[start:text], "little")
        try:
            return CrashJournal.from_bytes(self._memory[text : text + length])
        except (ValueError, TypeError):
            return CrashJournal()


def supervise(arguments: Sequence[str]) -> None:
    """Goes on in a child process; the process that called exits when that does.

    Returns at once for verbs that touch no models, for `--help`, where the system has no fork, and
    where `MCMC_SUPERVISE` is 0.

    Args:
        arguments: the command line without the program.
    """
    if not _is_supervised(arguments):
        return
    journal = SharedJournal()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        child = os.fork()
    except OSError:
        # Without room for another process the work may still succeed in this one.
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    if child == 0:
        end_with_parent(parent)
        end_by_raising(silent=True)
        tell_to(journal.write)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    adopt_orphans()
    events = _events()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    status, received = _watch(child, events)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    exit_code = _exit_code(os.waitstatus_to_exitcode(status), received, journal.read(), arguments)
    with contextlib.suppress(OSError, ValueError):  # a reader may have gone away
        sys.stdout.flush()
        sys.stderr.flush()
    # Taking the interpreter down takes longer than all else that this process does.
    os._exit(exit_code)


def _events() -> int:
    """A descriptor from which the numbers of all signals come, those of children among them.

    Written by the handler in C, so that none is lost between a look and a wait.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*heeded(), signal.SIGCHLD):
        signal.signal(number, _note)
    return reading


def _note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the record has been written to the descriptor."""


def _watch(child: int, events: int) -> tuple[int, int | None]:
    """Waits until the child has ended, hands signals on, and ends it if it does not follow.

    Returns:
        Its status, and the first signal that came.
    """
    received: int | None = None
    deadline_s: float | None = None
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status, received
        left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        if not select.select([events], [], [], left_s)[0]:
            os.kill(child, signal.SIGKILL)
            deadline_s = None
            continue
        for number in os.read(events, 64):
            if number not in ENDING:
                continue
            os.kill(child, number)
            if received is None:
                received, deadline_s = number, time.monotonic() + GRACE_S


def crash(exit_code: int, journal: CrashJournal, verb: str) -> Diagnostic:
    """The text about a process that died.

    Args:
        exit_code: negative for a signal.
        journal: the last of the process.
        verb: of the command line.
    """
    at = ", ".join(journal.steps) or f"mcmc {verb}"
    if exit_code >= 0:
        how = f"was ended by a library with exit status {exit_code}"
    elif exit_code == -signal.SIGKILL:
        how = "was killed (SIGKILL)"
    else:
        how = f"crashed with {_signal_name(-exit_code)}"
    if exit_code == -signal.SIGKILL:
        hint = "the system kills processes when memory runs out: free some, or use smaller inputs"
    elif "pass 'verify'" in journal.steps:
        hint = (
            "an op makes onnxruntime crash or run out of memory: leave 'verify' out of --passes, "
            "find its chip with mcmc run, and report it to onnxruntime"
        )
    else:
        hint = (
            "native code of a library crashed or ran out of memory: narrow it down with --passes "
            "and with parts of the model, and report it to that library"
        )
    return Diagnostic("MCM-U040", f"the process that worked on the model {how}", at, hint)


def may_leave_something(arguments: Sequence[str]) -> bool:
    """Return whether the verb may have something half-written when a signal comes."""
    if not arguments or arguments[0] not in SUPERVISED_VERBS:
        return False
    return not {"-h", "--help"} & set(arguments)


def _is_supervised(arguments: Sequence[str]) -> bool:
    if not hasattr(os, "fork") or os.environ.get(SUPERVISION_VARIABLE) == "0":
        return False
    return may_leave_something(arguments)


def _exit_code(
    exit_code: int, received: int | None, journal: CrashJournal, arguments: Sequence[str]
) -> int:
    """The exit code of the command; reports to the user what the child could not.

    Args:
        exit_code: of the child, negative for a signal.
        received: the signal that asked this process to end, or None.
        journal: the last of the child.
        arguments: the command line without the program.
    """
    if journal.unfinished or journal.displaced:
        # A light process of few milliseconds is why this is not imported before.
        from mcm_compiler.processes.private_folders import clean_up

        end_orphans()
        clean_up(journal)
    if journal.exit_code is not None:
        # What crashes when the interpreter ends comes after all work.
        exit_code = journal.exit_code if exit_code < 0 else exit_code
        # Somebody else may have asked the child itself to end.
        asked = exit_code - 128 if exit_code - 128 in ENDING else None
        if asked is not None:
            end_orphans()
            _say_ended(received or asked)
            return 128 + (received or asked)
        return exit_code
    end_orphans()
    asked = received or (-exit_code if -exit_code in ENDING else None)
    if asked is not None:
        _say_ended(asked)
        return 128 + asked
    found = crash(exit_code, journal, arguments[0])
    if _wants_json(arguments):
        click.echo(json.dumps({"diagnostics": [found.to_dict()]}, indent=2))
    else:
        _end_status_line()
        show_diagnostics([found])
    return FAILURE_EXIT


def _say_ended(number: int) -> None:
    _end_status_line()
    say(line_of(number))


def _end_status_line() -> None:
    """Of the status line that the child was showing."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\r\x1b[2K\x1b[?25h")


def _wants_json(arguments: Sequence[str]) -> bool:
    pairs = itertools.pairwise(arguments)
    return "--format=json" in arguments or ("--format", "json") in pairs


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
