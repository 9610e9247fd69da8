"""A light parent process, which tells the user when native code ends the process that works.

Kernels of a library can divide by zero, read out of bounds, or run out of memory in a thread of
their own; the system can kill what takes too much. The parent is forked off before anything heavy
is imported, waits, hands signals on, and exits as its child does. When the child dies, it says
where, from what the child told ahead, and removes what is half-written.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import click

from mcm_compiler.cli.failures import FAILURE_EXIT, show_diagnostics
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.last_words import LastWords, tell_to
from mcm_compiler.parent_death import end_with_parent

SUPERVISED_VERBS = frozenset({"compile", "check", "run", "simulate", "opt", "zoo"})
"""The verbs that touch models."""

SUPERVISION_VARIABLE = "MCMC_SUPERVISE"
"""Environment variable; 0 does the work in the first process, for debuggers and profilers."""

SAME_SIGNAL_S = 1.0
"""A signal that comes again within this time is the same one on another way."""

_FORWARDED = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class SharedWords:
    """The last words of a child in memory that it shares with its parent."""

    SLOT_BYTES = 1 << 17
    _LENGTH_BYTES = 4

    def __init__(self) -> None:
        # The first byte tells which of two slots is whole: a crash may come amid writing.
        self._memory = mmap.mmap(-1, 1 + 2 * self.SLOT_BYTES)

    def write(self, words: LastWords) -> None:
        """Replaces what is there, unless `words` are longer than a slot."""
        data = words.to_bytes()
        if len(data) > self.SLOT_BYTES - self._LENGTH_BYTES:
            return
        slot = 1 - (self._memory[0] & 1)
        start = 1 + slot * self.SLOT_BYTES
        end = start + self._LENGTH_BYTES + len(data)
        self._memory[start:end] = len(data).to_bytes(self._LENGTH_BYTES, "little") + data
        self._memory[0] = slot

    def read(self) -> LastWords:
        """What was written last; nothing where native code has overwritten it."""
        start = 1 + (self._memory[0] & 1) * self.SLOT_BYTES
        text = start + self._LENGTH_BYTES
        length = int.from_bytes(self._memory[start:text], "little")
        try:
            return LastWords.from_bytes(self._memory[text : text + length])
        except (ValueError, TypeError):
            return LastWords()


def supervise(arguments: Sequence[str]) -> None:
    """Goes on in a child process; the process that called exits when that does.

    Returns at once for verbs that touch no models, for `--help`, where the system has no fork, and
    where `MCMC_SUPERVISE` is 0.

    Args:
        arguments: the command line without the program.
    """
    if not _is_supervised(arguments):
        return
    words = SharedWords()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    try:
        child = os.fork()
    except OSError:
        # Without room for another process the work may still succeed in this one.
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    if child == 0:
        end_with_parent(parent)
        _take_signals_once()
        tell_to(words.write)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    _forward_signals(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(child, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    exit_code = _exit_code(os.waitstatus_to_exitcode(status), words.read(), arguments)
    with contextlib.suppress(OSError, ValueError):  # a reader may have gone away
        sys.stdout.flush()
        sys.stderr.flush()
    # Taking the interpreter down takes longer than all else that this process does.
    os._exit(exit_code)


def crash(exit_code: int, words: LastWords, verb: str) -> Diagnostic:
    """What the user is told about a process that died.

    Args:
        exit_code: negative for a signal.
        words: the last of the process.
        verb: of the command line.
    """
    at = ", ".join(words.steps) or f"mcmc {verb}"
    if exit_code >= 0:
        how = f"was ended by a library with exit status {exit_code}"
    elif exit_code == -signal.SIGKILL:
        how = "was killed (SIGKILL)"
    else:
        how = f"crashed with {_signal_name(-exit_code)}"
    if exit_code == -signal.SIGKILL:
        hint = "the system kills processes when memory runs out: free some, or use smaller inputs"
    elif "pass 'verify'" in words.steps:
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


def _is_supervised(arguments: Sequence[str]) -> bool:
    if not hasattr(os, "fork") or os.environ.get(SUPERVISION_VARIABLE) == "0":
        return False
    if not arguments or arguments[0] not in SUPERVISED_VERBS:
        return False
    return not {"-h", "--help"} & set(arguments)


def _forward_signals(child: int) -> None:
    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward)


def _take_signals_once() -> None:
    for number in _FORWARDED:
        if callable(handler := signal.getsignal(number)):
            signal.signal(number, _once(handler))


def _once(handler: Callable[[int, FrameType | None], Any]) -> Callable[[int, Any], None]:
    """A handler that ignores repetitions, which would interrupt the cleaning up.

    A terminal signals the whole group of processes, of which one hands on what it got.
    """
    last = -SAME_SIGNAL_S

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before >= SAME_SIGNAL_S:
            handler(number, frame)

    return handle


def _exit_code(exit_code: int, words: LastWords, arguments: Sequence[str]) -> int:
    if words.exit_code is not None:
        # What crashes when the interpreter ends comes after all work.
        return words.exit_code if exit_code < 0 else exit_code
    # A light process of few milliseconds is why this is not imported before.
    from mcm_compiler.private_folders import clean_up

    clean_up(words)
    if -exit_code in _FORWARDED:
        return 128 - exit_code
    found = crash(exit_code, words, arguments[0])
    if _wants_json(arguments):
        click.echo(json.dumps({"diagnostics": [found.to_dict()]}, indent=2))
    else:
        if sys.stderr.isatty():
            # Of the status line that the child was showing.
            sys.stderr.write("\r\x1b[2K\x1b[?25h")
        show_diagnostics([found])
    return FAILURE_EXIT


def _wants_json(arguments: Sequence[str]) -> bool:
    pairs = itertools.pairwise(arguments)
    return "--format=json" in arguments or ("--format", "json") in pairs


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
