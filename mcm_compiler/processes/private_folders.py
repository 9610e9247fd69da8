"""Folders for half-written files: gone with their block, or after the death of their process.

Their names say the process that they belong to, so that a later one can remove what a killed one
has left. That is done only where it is certain that the owner is dead: a folder on a shared disk
may belong to another host, and one in a shared volume to another container.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcm_compiler.processes.crash_journal import CrashJournal, unfinished

PREFIX = ".mcmc-"
_OWNED = re.compile(re.escape(PREFIX) + r"([0-9a-f]{8})-([0-9]{1,9})-")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


@contextmanager
def private_folder(parent: Path | None) -> Generator[Path]:
    """A new folder that only this user can read; it is removed with all that is left in it.

    Args:
        parent: where to make it; None for the system's temporary folder.

    Raises:
        OSError: if it cannot be made.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    path = place / f"{PREFIX}{world() or 'here'}-{os.getpid()}-{secrets.token_hex(8)}"
    # Told before it is there: whoever outlives this process knows what to remove at any moment.
    with unfinished(path):
        try:
            path.mkdir(mode=0o700)
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def remove_stale(parent: Path) -> None:
    """Removes the folders in `parent` that dead processes of this user have left.

    Kept are those of another host, of another start of this host, of another container, and of a
    process whose number another one has by now. Only Linux says enough to remove any.
    """
    here = world()
    if here is None:
        return
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            owner = _OWNED.match(entry.name)
            if owner is None or owner[1] != here or _is_alive(int(owner[2])):
                continue
            if not entry.is_dir(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                shutil.rmtree(entry.path, ignore_errors=True)


def clean_up(journal: CrashJournal) -> None:
    """Does what a process that died could not: puts folders back, removes half-written ones."""
    for kept, home in journal.displaced:
        if os.path.exists(kept) and not os.path.lexists(home):
            with contextlib.suppress(OSError):
                os.rename(kept, home)
    for path in map(Path, journal.unfinished):
        # The journal comes out of the memory of a process that crashed.
        if path.name.startswith(PREFIX):
            shutil.rmtree(path, ignore_errors=True)


@functools.cache
def world() -> str | None:
    """Eight digits for all processes that share their numbering with this one; None if unknown."""
    try:
        identity = _BOOT.read_text(encoding="ascii") + os.readlink(_NAMESPACE)
    except OSError:
        return None
    return hashlib.sha256(identity.encode()).hexdigest()[:8]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return not _is_unreaped(pid)


def _is_unreaped(pid: int) -> bool:
    """Return whether a process has ended unreaped: some first processes never reap."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name of the program, in parentheses, may hold anything.
    return status.rpartition(b") ")[2][:1] in (b"Z", b"X")
