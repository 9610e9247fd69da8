"""The page of a folder as it is now: made anew when the folder has been compiled anew."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.page.folder_page import checked_folder_page
from mcm_compiler.processes.staging import MANIFEST

Stamp = tuple[int, ...]


@dataclass(frozen=True)
class ShownPage:
    """What is to be seen of a folder.

    Attributes:
        content: the page, as `mcmc report --html` writes it.
        version: another one for another content.
        problem: why the folder cannot be read by now, or None; the content is the last one then.
        note: what was not checked, or None.
    """

    content: bytes
    version: str
    problem: str | None = None
    note: Diagnostic | None = None


class WatchedPage:
    """The page of a folder that others may replace at any time. May be used by many threads.

    A compile writes a folder aside and renames it, so that a new manifest tells of a new folder.

    Args:
        folder: an output folder.

    Raises:
        CompileError: as `checked_folder_page`, if it is none at first.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp = _stamp_of(folder)
        self._shown = _made(folder)

    def look(self) -> ShownPage:
        """The page as it is now; makes it anew where the folder is another one."""
        with self._lock:
            stamp = _stamp_of(self._folder)
            if stamp != self._stamp:
                self._look_again(stamp)
            return self._shown

    def _look_again(self, stamp: Stamp | None) -> None:
        try:
            shown = _made(self._folder)
        except CompileError as error:
            if _stamp_of(self._folder) != stamp:
                return  # it was replaced amid reading: the next look finds it whole
            found = error.diagnostics[0]
            before = self._shown
            problem = f"{found.code}: {found.message}"
            shown = ShownPage(before.content, before.version, problem, before.note)
        self._stamp, self._shown = stamp, shown


def _made(folder: Path) -> ShownPage:
    content, note = checked_folder_page(folder)
    return ShownPage(content, hashlib.sha256(content).hexdigest(), None, note)


def _stamp_of(folder: Path) -> Stamp | None:
    """What tells one manifest from the next, copied ones with their times too; None without."""
    try:
        told = (folder / MANIFEST).stat()
    except OSError:
        return None
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns
