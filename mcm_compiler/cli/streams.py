"""Standard streams that cannot be written end the command, rather than losing what it says."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.processes.interruption import EndingError

_OUTPUT, _ERROR = 1, 2
_NAMES = {_OUTPUT: "standard output", _ERROR: "standard error"}


class StreamFailedError(EndingError):
    """A standard stream cannot be written; not for the handlers of other errors to swallow."""


class _Guarded(io.FileIO):
    """The file below a standard stream; discards what comes after the first failure."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.reason: str | None = None

    def write(self, data: Any, /) -> int:
        if self.reason is not None:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self.reason = error.strerror or str(error)
            raise StreamFailedError(_NAMES[self.fileno()]) from error


_guarded: dict[int, _Guarded] = {}


def guard_streams() -> int | None:
    """Has failures to write to standard streams raise `StreamFailedError`.

    Returns:
        The exit code where one of them is closed, and the user has been told; else None.
    """
    for stream, descriptor in ((sys.stdout, _OUTPUT), (sys.stderr, _ERROR)):
        # Python has none for a descriptor that was closed when it started.
        if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
            return _told(descriptor, "it is closed")
    sys.stdout = _wrapped(sys.stdout, _OUTPUT)
    sys.stderr = _wrapped(sys.stderr, _ERROR)
    return None


def _wrapped(stream: Any, descriptor: int) -> Any:
    try:
        if os.name != "posix" or stream.fileno() != descriptor:
            return stream
    except (OSError, AttributeError):
        return stream
    stream.flush()
    raw = _guarded[descriptor] = _Guarded(descriptor)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        # Names in foreign models may hold what the terminal's encoding does not.
        errors="backslashreplace",
        line_buffering=stream.line_buffering or descriptor == _ERROR,
        write_through=stream.write_through,
    )


def flushed() -> int | None:
    """Writes what is buffered.

    Returns:
        The exit code where a stream has failed by now, and the user has been told; else None.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except StreamFailedError:
            continue  # noted below
        except (OSError, ValueError):
            continue
    for descriptor, raw in _guarded.items():
        if raw.reason is not None:
            return _told(descriptor, raw.reason)
    return None


def _told(descriptor: int, reason: str) -> int:
    """Says on the other stream that this one failed."""
    from mcm_compiler.cli.failures import FAILURE_EXIT

    found = Diagnostic("MCM-U052", f"{_NAMES[descriptor]} cannot be written: {reason}")
    other = _ERROR if descriptor == _OUTPUT else _OUTPUT
    with contextlib.suppress(OSError):
        os.write(other, ("\n".join(found.lines()) + "\n").encode())
    return FAILURE_EXIT
