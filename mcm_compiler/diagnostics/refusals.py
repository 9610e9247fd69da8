"""Refusals of the operating system, failures that may pass, and notices of plug-ins.

They are no results of a compile: reports and folders do not hold them. The command line shows
them on stderr; for Python code a note is a `DeprecationWarning`, too.
"""

from __future__ import annotations

import errno
import os
import warnings

from mcm_compiler.diagnostics import Diagnostic, Severity, quote

_PERMISSION = "see that you may enter its folder, and read or write there, or name another place"
_ROOM = "free some space, or name a place on another disk"
_HANDLES = "close other programs, or raise the limit of open files (ulimit -n)"
_DISK = "see that its disk is there and whole, or name another place"

_HINTS = {
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


def is_of_a_disk(error: OSError) -> bool:
    """Return whether the system, and not a library, refuses a file or disk.

    A write that fails names no file; a connection that is refused names none either.
    """
    return error.errno in _HINTS


def refusal_of_the_system(error: OSError) -> Diagnostic | None:
    """MCM-U053 for a file or folder that the system does not give.

    Returns:
        None where no file is named, and for what may be a fault of ours, such as a missing file.
    """
    if error.errno not in _HINTS or error.filename is None:
        return None
    return Diagnostic(
        "MCM-U053",
        f"the system refuses a file or folder: {error.strerror}",
        at=quote(os.fsdecode(error.filename)),
        hint=_HINTS[error.errno],
    )


_BEGINNINGS = ("MCM-A", "MCM-U037", "MCM-U040", "MCM-U053", "MCM-U099", "MCM-X")
"""Of codes: of folders and files, of processes that died, were stopped or crashed."""


def is_of_the_moment(code: str) -> bool:
    """Return whether a failure with this code is not worth keeping."""
    return code.startswith(_BEGINNINGS)


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
