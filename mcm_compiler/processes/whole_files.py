"""Single files that are written whole or not at all, and only where a file belongs.

A file is written in a private folder beside its place, whose name nobody can guess, and renamed.
Whatever stands in the place and is no regular file stays as it is: a device, a pipe or a socket
must not be replaced by a file, and what a link leads to was not named by the user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.interruption import becoming_visible
from mcm_compiler.processes.private_folders import private_folder
from mcm_compiler.processes.staging import cannot_write

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
            raise CompileError(
                Diagnostic(
                    "MCM-U050",
                    f"the output would take the place of {kind}",
                    at=quote(str(path)),
                    hint="give the name of a new or a regular file",
                )
            )


@contextmanager
def whole_file(path: Path) -> Generator[Path]:
    """A path in a private folder beside `path`; the file takes its place when the block succeeds.

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
