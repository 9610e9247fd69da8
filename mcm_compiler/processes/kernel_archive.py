"""Compiled kernels in one file, which is read before the cache.

An archive is a zip file. Each function has a member: what numba would keep of it in its cache, keys
and machine code. The member's name is the place of the function in the package, and the digest of
the source file that it was compiled from, so that it is found for that content alone.

What is read are pickles, which are executed: archives belong to the installation, and are as
trusted as its modules.

A wheel for one platform and one Python carries its kernels as machine code
(`mcm_compiler/compiled_kernels.bin`), so that a first compile does not spend a minute compiling
them. They are for a processor level that many machines share (`common_level`).
"""

from __future__ import annotations

import functools
import importlib.metadata
import io
import json
import os
import pickle
import platform
import stat
import sys
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER = "made_for.json"
"""The member with the facts that the kernels are for, see `facts_here`, and their number."""


def archive_bytes(
    made_for: Mapping[str, str], functions: Mapping[str, Mapping[Any, bytes]]
) -> bytes:
    """An archive; the same kernels make the same bytes.

    Args:
        made_for: as `facts_here`.
        functions: what numba keeps of compiled signatures by its key, by member (`member_of`).
    """
    header = {**made_for, "kernels": sum(map(len, functions.values()))}
    members = {name: pickle.dumps(dict(functions[name])) for name in sorted(functions)}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, data in {HEADER: json.dumps(header), **members}.items():
            # Its time is 1980, unlike that of a member that is given by name.
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()


def member_of(module: str, filename_base: str, stamp: object) -> str:
    """The member of a function, such as `mcm_hardware/memory/graph.steps-12.py311.0a1b`.

    Args:
        module: dotted name of its module.
        filename_base: what numba's files for it begin with.
        stamp: digest of its source file; of no use where numba has something else.
    """
    digest = stamp.hex() if isinstance(stamp, bytes) else ""
    return "/".join([*module.split(".")[:-1], f"{filename_base}.{digest}"])


class Archive:
    """An archive that is read from.

    Args:
        path: the file.

    Attributes:
        header: see `HEADER`.

    Raises:
        OSError: if it cannot be read.
        zipfile.BadZipFile: if it is no archive, or not a whole one.
        KeyError: if it has no header.
    """

    def __init__(self, path: Path) -> None:
        # Not from the file, whose position a fork would share.
        self._file = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        self.header: dict[str, Any] = json.loads(self._file.read(HEADER))
        self._members = frozenset(self._file.namelist())
        self._read: dict[str, dict[Any, bytes]] = {}
        self._lock = threading.Lock()

    def kernel(self, member: str, key: Any) -> bytes | None:
        """The bytes that are kept of one signature of a function; None where it is not there.

        Args:
            member: of the function, with its source file as it is now.
            key: numba's.
        """
        if member not in self._members:
            return None
        with self._lock:
            if member not in self._read:
                self._read[member] = pickle.loads(self._file.read(member))  # noqa: S301 - our own
        return self._read[member].get(key)


ARCHIVE = Path(__file__).parents[1] / "compiled_kernels.bin"
"""Where a wheel has its kernels; an editable installation and a plain build have none."""


@dataclass(frozen=True)
class KernelState:
    """Check whether the kernels of the wheel are used in this process.

    Attributes:
        archive: that is in use; None where none is.
        reason: why none is in use; empty where one is.
    """

    archive: Archive | None
    reason: str = ""


@functools.cache
def kernel_state(path: Path = ARCHIVE) -> KernelState:
    """The archive of this installation, if it is for this interpreter, processor and numba."""
    if not path.exists():
        return KernelState(None, "this installation brings none")
    try:
        for place in (path, path.parent) if os.name == "posix" else ():
            if _others_may_write(place):
                return KernelState(None, f"others can write to {place}")
        archive = Archive(path)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        return KernelState(None, f"{path.name} cannot be read: {error}")
    for name, here in facts_here().items():
        if (made := archive.header.get(name)) != here:
            return KernelState(None, f"they are for {name} {made}, not {here or 'this one'}")
    return KernelState(archive)


def facts_here() -> dict[str, str]:
    """Facts that kernels of this process are for."""
    return {
        "python": sys.implementation.cache_tag or "",
        "system": sys.platform,
        "machine": platform.machine(),
        "processor": common_level(),
        # From their metadata: numba itself takes a while to load.
        **{name: importlib.metadata.version(name) for name in ("numba", "llvmlite")},
    }


def _others_may_write(place: Path) -> bool:
    """Return whether users may write there other than the owner, root or the user's own group.

    What is read from the archive is executed.
    """
    found = place.stat()
    own_group = found.st_gid in (0, os.getegid())
    return bool(found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not own_group))


V3 = "x86-64-v3"
GENERIC = "generic"

_V3_FLAGS = frozenset(
    ("abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "lahf_lm", "movbe", "popcnt",
     "sse4_1", "sse4_2", "ssse3", "xsave")
)  # fmt: skip
"""Linux's names for the instructions of x86-64-v3."""


@functools.cache
def common_level() -> str:
    """The processor level that this machine shares with many others; empty where it has none."""
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return GENERIC
    if machine in ("x86_64", "amd64") and _flags() >= _V3_FLAGS:
        return V3
    return ""


def _flags() -> frozenset[str]:
    """Instruction sets of the first core; empty where the system has no file of them."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()
