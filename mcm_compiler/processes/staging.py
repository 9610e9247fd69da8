"""Output that is written whole or not at all: staged folders, and single files.

A file is written in a private folder next to its place, whose name nobody can guess, and renamed.
Anything else in the place than a regular file stays as it is. A device, a pipe or a socket must
not be replaced by a file, and what a link leads to was not named by the user.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.diagnostics.refusals import refusal_of_the_system
from mcm_compiler.processes.crash_journal import displaced, unfinished
from mcm_compiler.processes.interruption import becoming_visible, output_is_there
from mcm_compiler.processes.private_folders import PREFIX, private_folder, remove_stale

MANIFEST = "manifest.json"
"""The file that makes a folder an output folder: `files` in it lists all others."""


@dataclass(frozen=True)
class StagingFolder:
    """A folder that becomes the output folder when the compile succeeds.

    Attributes:
        path: where to write.
        destination: the output folder, or None where nothing is kept.
    """

    path: Path
    destination: Path | None

    def clear(self) -> None:
        """Removes what was written so far."""
        for one in self.path.iterdir():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one)
            else:
                one.unlink()


@contextmanager
def staging(destination: Path | None, force: bool = False) -> Generator[StagingFolder]:
    """Opens a staging folder next to `destination` and moves it there when the block succeeds.

    The folder is removed when the block raises, and so are folders above it that were made for it
    and are empty. With no destination it lives in the system's
    temporary folder and is always removed. What killed processes have left there is removed, too.

    Args:
        destination: the output folder; it must not exist unless `force`.
        force: replace an existing output folder.

    Raises:
        CompileError: MCM-A001 if `destination` exists, before the block or after it, MCM-A002 if
            it cannot be written (permissions, full disk). MCM-A003 if `force` would replace
            something that is not an output folder of this compiler, or files that a user has put
            into one. MCM-U053 if the block fails by a file elsewhere that the system refuses.
    """
    try:
        if destination is not None:
            _check_destination(destination, force)
        parent = destination.absolute().parent if destination is not None else None
        temporary = Path(tempfile.gettempdir())
        for place in {parent or temporary: None, temporary: None}:
            remove_stale(place)
        with ExitStack() as stack:
            path = _entered(stack, parent)
            yield StagingFolder(path, destination)
            if destination is not None:
                _move_into_place(path, destination, force)
    except OSError as error:
        refused = None if _is_of_output(error, destination) else refusal_of_the_system(error)
        raise (
            cannot_write(error, destination) if refused is None else CompileError(refused)
        ) from error


def _is_of_output(error: OSError, destination: Path | None) -> bool:
    """Return whether a failure is one of writing the output, judging by the system's error."""
    if error.filename is None:
        return True
    failed = Path(os.path.abspath(os.fsdecode(error.filename)))
    if any(part.startswith(PREFIX) for part in failed.parts):
        return True  # in a private folder
    if destination is None:
        return False
    place = Path(os.path.abspath(destination))
    return failed.is_relative_to(place) or place.is_relative_to(failed)


def _entered(stack: ExitStack, parent: Path | None) -> Path:
    """A private folder in `parent`, which is made where it lacks; both end with `stack`."""
    if parent is None:
        return stack.enter_context(private_folder(None))
    stack.enter_context(no_empty_folders(parent))
    for _ in range(_MAX_MOVES):
        parent.mkdir(parents=True, exist_ok=True)
        # A compile beside this one that fails removes what it made, between these two lines too.
        with contextlib.suppress(FileNotFoundError):
            return stack.enter_context(private_folder(parent))
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(parent))


def cannot_write(error: OSError, destination: Path | None) -> CompileError:
    """The diagnostic for a write that the system refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free space on the disk, or choose another output folder"
    else:
        hint = "choose an output folder that you may write"
    where = destination if destination is not None else error.filename
    return CompileError.of(
        "MCM-A002",
        f"the output cannot be written: {error.strerror or error}",
        at=str(where) if where is not None else None,
        hint=hint,
    )


def _check_destination(destination: Path, force: bool) -> None:
    if not os.path.lexists(destination):
        return
    if not force:
        raise _exists(destination)
    foreign = _foreign(destination)
    if foreign is not None:
        raise CompileError.of(
            "MCM-A003",
            "--force would replace something that this compiler did not write",
            at=str(foreign),
        )


def _exists(destination: Path) -> CompileError:
    return CompileError.of("MCM-A001", "the output folder exists", at=str(destination))


def _foreign(destination: Path) -> Path | None:
    """Name of what makes `destination` more than an empty or output folder; None for those.

    A manifest alone proves nothing, since many projects have a file of that name: it must list
    every other file of the folder.
    """
    if destination.is_symlink():
        return destination
    try:
        present = sorted(os.listdir(destination))
        if not present:
            return None
        if MANIFEST not in present:
            return destination
        manifest = json.loads((destination / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None  # another compile is just replacing it
    except (NotADirectoryError, IsADirectoryError, ValueError, RecursionError):
        return destination
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        return destination
    listed = {MANIFEST, *files}
    return next((destination / name for name in present if name not in listed), None)


def is_output_folder(path: Path) -> bool:
    """Return whether a folder is an output of this compiler, to which nobody has added anything."""
    try:
        return (path / MANIFEST).is_file() and _foreign(path) is None
    except OSError:
        return False


_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
"""Error numbers of the system when something is in the way of a rename."""

_MAX_MOVES = 100
"""Tries to replace a folder that other compiles replace all the time."""


def _move_into_place(path: Path, destination: Path, force: bool) -> None:
    path.chmod(0o777 & ~_umask())
    with becoming_visible():
        if _renamed(path, destination):
            output_is_there()
            return
    # Another compile may have been faster; what it wrote is treated like what was there before.
    _check_destination(destination, force)
    for _ in range(_MAX_MOVES):
        old = destination.absolute().parent / f".mcmc-old-{secrets.token_hex(8)}"
        # Two renames: a kill between them leaves the old folder beside, never a mixture.
        kept = old / "folder"
        with unfinished(old), displaced(kept, destination):
            try:
                old.mkdir(mode=0o700)
                with contextlib.suppress(FileNotFoundError):
                    destination.rename(kept)
                with becoming_visible():
                    if _renamed(path, destination):
                        output_is_there()
                        return
            finally:
                # Interrupted between the two: the old folder goes back.
                if kept.exists() and not os.path.lexists(destination):
                    _renamed(kept, destination)
                shutil.rmtree(old, ignore_errors=True)
    raise _exists(destination)


def _renamed(path: Path, destination: Path) -> bool:
    """Renames a folder; False where something but an empty folder is in the way."""
    try:
        path.rename(destination)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def no_empty_folders(*wanted: Path) -> Generator[None]:
    """Removes what the block made of `wanted` and the folders above, as far as it is empty.

    What was there before stays, and so does every folder that holds anything. It does so whether
    the block raises or not; a folder that shall stay empty is none of `wanted`.

    Args:
        wanted: folders that the block may make, with their missing parents.
    """
    missing = _missing(wanted)
    try:
        yield
    finally:
        for folder in missing:
            with contextlib.suppress(OSError, ValueError):
                folder.rmdir()


def _missing(wanted: Sequence[Path]) -> list[Path]:
    """The folders that do not exist yet, each before the one that it will lie in."""
    found: dict[Path, None] = {}
    for folder in map(Path.absolute, wanted):
        for step in (folder, *folder.parents):
            if step in found or os.path.lexists(step):
                break
            found[step] = None
    return sorted(found, key=lambda step: len(step.parts), reverse=True)


_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def refuse_irregular(path: Path) -> None:
    """Stops a write to a name that stands for something else than a file.

    Raises:
        CompileError: MCM-U050 if there is a link, a device, a pipe, a socket or a folder.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise cannot_write(error, path) from error
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            raise CompileError.of(
                "MCM-U050", f"the output would take the place of {kind}", at=quote(str(path))
            )


@contextmanager
def whole_file(path: Path) -> Generator[Path]:
    """A path in a private folder next to `path`; the file takes its place when the block succeeds.

    Raises:
        CompileError: MCM-A002 if the system refuses the write, MCM-U050 if `path` stands for
            something else than a file.
    """
    refuse_irregular(path)
    try:
        with private_folder(path.absolute().parent) as folder:
            partial = folder / path.name
            yield partial
            refuse_irregular(path)
            with becoming_visible():
                os.replace(partial, path)
    except OSError as error:
        raise cannot_write(error, path) from error


def write_whole(path: Path, data: bytes, *, lasting: bool = False) -> None:
    """Writes a file at once: whoever reads it sees the one before or this one.

    Args:
        path: its place.
        data: its bytes.
        lasting: after a loss of power, too.

    Raises:
        CompileError: as `whole_file`.
    """
    with whole_file(path) as partial, partial.open("xb") as stream:
        stream.write(data)
        if lasting:
            stream.flush()
            os.fsync(stream.fileno())


def write_changed(path: Path, data: bytes) -> None:
    """`write_whole`, which leaves a regular file as it is that has these bytes already.

    Raises:
        CompileError: as `whole_file`.
    """
    refuse_irregular(path)
    try:
        same = path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        same = False
    if not same:
        write_whole(path, data)


@contextmanager
def appended_file(path: Path) -> Generator[BinaryIO]:
    """A regular file opened for writing at its end; made if there is none.

    Raises:
        OSError: if the system refuses it.
        CompileError: MCM-U050 if `path` stands for something else than a file.
    """
    refuse_irregular(path)
    # What takes the place meanwhile is neither followed nor waited for.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with os.fdopen(os.open(path, flags, 0o666), "ab") as stream:
        yield stream
