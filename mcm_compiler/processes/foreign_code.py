"""Code of plug-ins, of which nothing is known: what it raises passes, or is a fault of its own."""

from __future__ import annotations

import os
import traceback
from typing import Any, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.diagnostics.refusals import is_of_a_disk, refusal_of_the_system
from mcm_compiler.processes.interruption import ends_the_command

DEBUG_VARIABLE = "MCMC_DEBUG"
"""Environment variable that lets the stack trace of an internal error through."""

_NOBODY = object()


def is_no_fault(error: BaseException) -> bool:
    """Return whether what foreign code raised passes: a diagnostic, or what ends the command."""
    if isinstance(error, CompileError):
        # Whose constructor is one of a subclass may have none.
        found = cast("Any", getattr(error, "diagnostics", None))
        return isinstance(found, tuple) and all(isinstance(one, Diagnostic) for one in found)
    return ends_the_command(error)


def is_refused_by_the_system(error: BaseException) -> bool:
    """Return whether a file is refused or a disk is full, for whichever code asked."""
    if not isinstance(error, OSError):
        return False
    if error.filename is None:
        return is_of_a_disk(error)
    return refusal_of_the_system(error) is not None


def has_let_through(owner: object, error: BaseException) -> bool:
    """Return whether a method of an object, or of a class, was at work when an error was raised.

    This is found out afterwards, so that no call costs more for it.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else _NOBODY
        if first is owner or (isinstance(owner, type) and isinstance(first, owner)):
            return True
    return False


def fault_text(error: BaseException) -> str:
    """The type of an error, and its text where it has one that can be shown."""
    kind = type(error).__name__
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as second:  # its class is foreign code, too
        return f"{kind}, whose text raises {type(second).__name__}"
    return f"{kind}: {text}" if text else kind


def diagnosed(error: BaseException) -> tuple[Diagnostic, ...]:
    """Text of `error`; with `MCMC_DEBUG` the stack trace is printed, too."""
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
