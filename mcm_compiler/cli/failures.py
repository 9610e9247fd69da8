"""How a failure reaches the user: diagnostics and an exit code, never a stack trace."""

from __future__ import annotations

import errno
import json
import os
import traceback
from collections.abc import Iterable

import click

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.diagnostics.refusals import refusal_of_the_system
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.processes.interruption import ends_the_command
from mcm_compiler.text.units import printable

FAILURE_EXIT = 1
USAGE_EXIT = 2

DEBUG_VARIABLE = "MCMC_DEBUG"
"""Environment variable that lets the stack trace of an internal error through."""

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def failed(error: BaseException, output_format: str | None) -> int:
    """The exit code of a verb that ends with an error, which is reported.

    Raises:
        BaseException: `error` itself, if click handles it or it ends the command.
    """
    if _is_clicks_own(error) or ends_the_command(error):
        raise error
    return report_failure(error, output_format)


def _left_by_foreign_code(leaving: SystemExit) -> Exception:
    """The error that it is when a plug-in or a library ends the program; click has its own way."""
    code = fault_text(leaving).removeprefix("SystemExit").removeprefix(": ")
    return RuntimeError(f"a plug-in or a library called sys.exit({code})")


def report_failure(error: BaseException, output_format: str | None = None) -> int:
    """Tells the user about `error` and gives the exit code.

    Raises:
        BaseException: `error` itself, if it is an internal one and `MCMC_DEBUG` is set.
    """
    if isinstance(error, SystemExit):
        error = _left_by_foreign_code(error)
    if not isinstance(error, CompileError) and os.environ.get(DEBUG_VARIABLE):
        raise error
    diagnostics = diagnosed(error)
    if output_format == "json":
        click.echo(json.dumps({"diagnostics": [d.to_dict() for d in diagnostics]}, indent=2))
    else:
        show_diagnostics(diagnostics)
    return FAILURE_EXIT


def diagnosed(error: BaseException) -> tuple[Diagnostic, ...]:
    """What the user is told about `error`; with `MCMC_DEBUG` the stack trace is printed, too."""
    if isinstance(error, CompileError) and is_no_fault(error):
        if error.__cause__ is not None and os.environ.get(DEBUG_VARIABLE):
            traceback.print_exception(error.__cause__)
        return error.diagnostics
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, OSError):
        refused = refusal_of_the_system(error)
        if refused is not None:
            return (refused,)
    return (internal_error(error),)


def internal_error(error: BaseException) -> Diagnostic:
    """The diagnostic for a fault of the compiler itself."""
    return Diagnostic(
        "MCM-U099",
        f"internal error: {fault_text(error)}",
        hint=f"run again with {DEBUG_VARIABLE}=1 for the stack trace, and report it",
    )


def old_spelling(flag: str, instead: str) -> Diagnostic:
    """MCM-U007, a note.

    Args:
        flag: the option as it was written.
        instead: what to write from now on.
    """
    return Diagnostic(
        "MCM-U007",
        f"{flag} is the old spelling of an option, and goes with the next release",
        at=f"option {flag}",
        hint=f"write {instead}",
    )


def show_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Prints diagnostics to stderr, in colour on a terminal."""
    colour = False if os.environ.get("NO_COLOR") else None
    for diagnostic in diagnostics:
        head, *rest = (printable(line) for line in diagnostic.lines())
        label, _, message = head.partition(": ")
        styled = click.style(label, fg=_COLOURS[diagnostic.severity], bold=True)
        click.echo("\n".join([f"{styled}: {message}", *rest]), err=True, color=colour)


def _is_clicks_own(error: BaseException) -> bool:
    """Whether click handles `error` itself: wrong usage, an exit, a reader that went away."""
    if isinstance(error, (click.ClickException, click.exceptions.Exit, click.Abort)):
        return True
    return isinstance(error, OSError) and error.errno == errno.EPIPE
