"""How a failure reaches the user: diagnostics and an exit code, never a stack trace."""

from __future__ import annotations

import errno
import json
import os
import traceback
from collections.abc import Iterable
from typing import Any, Literal

import click

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.text.printable import printable

Format = Literal["text", "json"]

FAILURE_EXIT = 1
USAGE_EXIT = 2

DEBUG_VARIABLE = "MCMC_DEBUG"
"""Environment variable that lets the stack trace of an internal error through."""

_PERMISSION = "see that you may enter its folder, and read or write there, or name another place"
_ROOM = "free some space, or name a place on another disk"
_HANDLES = "close other programs, or raise the limit of open files (ulimit -n)"
_DISK = "see that its disk is there and whole, or name another place"

_REFUSALS = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: _PERMISSION,
    errno.ENAMETOOLONG: "take a shorter name",
    errno.ELOOP: "its links lead in a circle: name a file or folder itself",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EMFILE: _HANDLES,
    errno.ENFILE: _HANDLES,
    errno.EIO: _DISK,
    errno.ESTALE: _DISK,
    errno.ENODEV: _DISK,
    errno.ENXIO: _DISK,
}
"""What the system may refuse files for, whatever this program does, and what helps."""

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


class Verb(click.Command):
    """A command whose failures are diagnosed in the format that the user asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if _is_clicks_own(error):
                raise
            output_format = "json" if ctx.params.get("output_format") == "json" else "text"
            ctx.exit(report_failure(error, output_format))


def report_failure(error: Exception, output_format: Format = "text") -> int:
    """Tells the user about `error` and gives the exit code.

    Raises:
        Exception: `error` itself, if it is an internal one and `MCMC_DEBUG` is set.
    """
    if not isinstance(error, CompileError) and os.environ.get(DEBUG_VARIABLE):
        raise error
    diagnostics = diagnosed(error)
    if output_format == "json":
        click.echo(json.dumps({"diagnostics": [d.to_dict() for d in diagnostics]}, indent=2))
    else:
        show_diagnostics(diagnostics)
    return FAILURE_EXIT


def diagnosed(error: Exception) -> tuple[Diagnostic, ...]:
    """What the user is told about `error`; with `MCMC_DEBUG` the stack trace is printed, too."""
    if isinstance(error, CompileError):
        if error.__cause__ is not None and os.environ.get(DEBUG_VARIABLE):
            traceback.print_exception(error.__cause__)
        return error.diagnostics
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, OSError):
        refused = _refusal_of_the_system(error)
        if refused is not None:
            return (refused,)
    return (internal_error(error),)


def _refusal_of_the_system(error: OSError) -> Diagnostic | None:
    """The diagnostic for a file that the system does not give; None for faults of ours."""
    if error.errno not in _REFUSALS or error.filename is None:
        return None
    return Diagnostic(
        "MCM-U053",
        f"the system refuses a file or folder: {error.strerror}",
        at=quote(os.fsdecode(error.filename)),
        hint=_REFUSALS[error.errno],
    )


def internal_error(error: Exception) -> Diagnostic:
    """The diagnostic for a fault of the compiler itself."""
    text = str(error)
    return Diagnostic(
        "MCM-U099",
        f"internal error: {type(error).__name__}{': ' if text else ''}{text}",
        hint=f"run again with {DEBUG_VARIABLE}=1 for the stack trace, and report it",
    )


def show_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Prints diagnostics to stderr, in colour on a terminal."""
    colour = False if os.environ.get("NO_COLOR") else None
    for diagnostic in diagnostics:
        head, *rest = (printable(line) for line in diagnostic.lines())
        label, _, message = head.partition(": ")
        styled = click.style(label, fg=_COLOURS[diagnostic.severity], bold=True)
        click.echo("\n".join([f"{styled}: {message}", *rest]), err=True, color=colour)


def _is_clicks_own(error: Exception) -> bool:
    """Whether click handles `error` itself: wrong usage, an exit, a reader that went away."""
    if isinstance(error, (click.ClickException, click.exceptions.Exit, click.Abort)):
        return True
    return isinstance(error, OSError) and error.errno == errno.EPIPE
