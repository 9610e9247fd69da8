"""The crash journal: what a process is doing and has half-written, kept for its supervisor.

Native code of a library can end a process without a chance to say or to clean up anything. So the
stages of a compile are recorded before they begin, and files before they are whole; a supervisor
reads the last of it. Where nobody listens, telling costs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mcm_compiler.processes.interruption import stop_if_asked

T = TypeVar("T")

MAX_STEP_CHARACTERS = 300
"""Longer steps are cut; names in models have no bound."""


@dataclass(frozen=True)
class CrashJournal:
    """The state of a process.

    Attributes:
        steps: what it is doing, from the outermost to the innermost step.
        unfinished: files and folders that belong to nobody if it dies now.
        displaced: `(kept, home)`: folders that lie at `kept` for a moment and belong at `home`.
        exit_code: set when all work is done, and only the process itself has yet to end.
    """

    steps: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    displaced: tuple[tuple[str, str], ...] = ()
    exit_code: int | None = None

    def to_bytes(self) -> bytes:
        """The form in which it travels; any file name survives it."""
        return json.dumps(
            [self.steps, self.unfinished, self.displaced, self.exit_code], separators=(",", ":")
        ).encode("ascii")

    @staticmethod
    def from_bytes(data: bytes) -> CrashJournal:
        """The inverse of `to_bytes`."""
        steps, unfinished, displaced, exit_code = json.loads(data)
        pairs = tuple((kept, home) for kept, home in displaced)
        return CrashJournal(tuple(steps), tuple(unfinished), pairs, exit_code)


class _Teller:
    """The state of this process, and who hears of it."""

    def __init__(self) -> None:
        self.listener: Callable[[CrashJournal], None] | None = None
        self.pid = 0
        self.steps: list[str] = []
        self.unfinished: list[str] = []
        self.displaced: list[tuple[str, str]] = []
        self.of_others: dict[int, CrashJournal] = {}

    def tell(self, exit_code: int | None = None) -> None:
        # A fork has a copy of the state, and of the way to the listener, but is not meant.
        if self.listener is not None and self.pid == os.getpid():
            unfinished, displaced = list(self.unfinished), list(self.displaced)
            for journal in self.of_others.values():
                unfinished += journal.unfinished
                displaced += journal.displaced
            self.listener(
                CrashJournal(tuple(self.steps), tuple(unfinished), tuple(displaced), exit_code)
            )


_teller = _Teller()


def tell_to(listener: Callable[[CrashJournal], None] | None) -> None:
    """Makes `listener` hear of every change; None ends that."""
    _teller.listener = listener
    _teller.pid = os.getpid()


def is_heard() -> bool:
    """Return whether anybody outlives this process, and reports its fate to the user."""
    return _teller.listener is not None


@contextmanager
def doing(step: str) -> Generator[None]:
    """Record `step`, such as `pass 'verify'`, for the time of the block.

    Raises:
        SystemExit: if a signal has asked this process to end.
    """
    stop_if_asked()
    yield from _told(_teller.steps, step[:MAX_STEP_CHARACTERS])


@contextmanager
def unfinished(path: Path) -> Generator[None]:
    """Record that nobody misses `path`, which need not exist, if this process dies in the block.

    What a signal has kept the block from removing stays recorded.
    """
    place = str(path.absolute())
    yield from _told(_teller.unfinished, place, lambda: not os.path.lexists(place))


@contextmanager
def displaced(kept: Path, home: Path) -> Generator[None]:
    """Record that `kept` belongs at `home` if this process dies in the block and `home` is free."""
    yield from _told(_teller.displaced, (str(kept.absolute()), str(home.absolute())))


def hand_on(process: int, journal: CrashJournal | None) -> None:
    """Record what another process has half-written, for when both die.

    Args:
        process: its number.
        journal: its last; None when it has ended, or others have cleaned up after it.
    """
    if journal is None:
        _teller.of_others.pop(process, None)
    else:
        _teller.of_others[process] = journal
    _teller.tell()


def finished(exit_code: int) -> None:
    """Record that all work is done; what the interpreter still does when it ends is none."""
    _teller.tell(exit_code)


def _told(
    entries: list[T], entry: T, is_over: Callable[[], bool] = lambda: True
) -> Generator[None]:
    if _teller.listener is None:
        yield
        return
    entries.append(entry)
    _teller.tell()
    try:
        yield
    finally:
        if is_over():
            entries.remove(entry)
            _teller.tell()
