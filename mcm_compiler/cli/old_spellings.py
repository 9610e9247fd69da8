"""Options whose spelling has changed: they work for one release more, and say what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcm_compiler.diagnostics import Diagnostic


def old_spelling(flag: str, instead: str) -> Diagnostic:
    """MCM-U007, a note.

    Args:
        flag: the option as it was written.
        instead: what to write from now on.
    """
    from mcm_compiler.diagnostics import Diagnostic, Severity

    return Diagnostic(
        "MCM-U007",
        f"{flag} is the old spelling of an option, and goes with the next release",
        at=f"option {flag}",
        hint=f"write {instead}",
        severity=Severity.NOTE,
    )
