"""Notes and warnings about plug-ins, which are due once in a process.

They are no results of a compile: reports and folders do not hold them. The command line shows
them on stderr; for Python code a note is a `DeprecationWarning`, too.
"""

from __future__ import annotations

import warnings

from mcm_compiler.diagnostics import Diagnostic, Severity

_known: set[str] = set()
_new: list[Diagnostic] = []


def notice(diagnostic: Diagnostic, once_for: str | None = None) -> None:
    """Keeps a diagnostic for `take_notices`.

    Args:
        diagnostic: a note or a warning.
        once_for: text for which there is one of its code; the diagnostic itself by default.
    """
    key = f"{diagnostic.code} {once_for or diagnostic}"
    if key not in _known:
        _known.add(key)
        _new.append(diagnostic)
        if diagnostic.severity is Severity.NOTE:
            warnings.warn(str(diagnostic), DeprecationWarning, stacklevel=3)


def take_notices() -> list[Diagnostic]:
    """Notices since the last call."""
    taken, _new[:] = list(_new), []
    return taken
