"""Compiled kernels in one file, which is read before the cache.

An archive is a header (see `header`), an index in JSON, and for each function what numba
would keep in its cache: keys and machine code, compressed. A function is found by its place in the
package, and taken only where its source file has the content that it was compiled from.

What is read are pickles, which are executed: archives belong to the installation, and are as
trusted as its modules.

A wheel for one platform and one Python carries its kernels as machine code
(`mcm_compiler/compiled_kernels.bin`, see `archive`), so that a first compile does not spend
a minute compiling them. They are for a processor level that many machines share (`processor`).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import os
import pickle
import platform
import stat
import sys
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FunctionKernels:
    """Kernels of one function in an archive.

    Attributes:
        stamp: digest of its source file, in hex.
        kernels: by numba's key, what numba keeps of a compiled signature.
    """

    stamp: str
    kernels: Mapping[Any, bytes]


def archive_bytes(made_for: Mapping[str, str], functions: Mapping[str, FunctionKernels]) -> bytes:
    """An archive.

    Args:
        made_for: the fields of `KernelHeader` that say what the kernels are for.
        functions: by the place of each, see `place_of`.
    """
    index: dict[str, tuple[str, int, int]] = {}
    parts: list[bytes] = []
    at = 0
    for name in sorted(functions):
        part = zlib.compress(pickle.dumps(dict(functions[name].kernels)), level=9)
        index[name] = (functions[name].stamp, at, len(part))
        parts.append(part)
        at += len(part)
    text = json.dumps(index, separators=(",", ":")).encode()
    count = sum(len(each.kernels) for each in functions.values())
    header = KernelHeader(**made_for, kernels=count, index_bytes=len(text), data_bytes=at)
    return b"".join([header.line(), text, *parts])


def place_of(module: str, filename_base: str) -> str:
    """Where a function stands, such as `mcm_hardware/memory/graph.steps-12.py311`.

    Args:
        module: dotted name of its module.
        filename_base: what numba's files for it begin with.
    """
    return "/".join([*module.split(".")[:-1], filename_base])


class Archive:
    """An archive that is read from.

    Args:
        path: the file.

    Raises:
        OSError: if it cannot be read.
        ArchiveError: if it is no archive, or not a whole one.
    """

    def __init__(self, path: Path) -> None:
        self.header = read_header(path)
        with path.open("rb") as file:
            file.readline()
            self._index: dict[str, Any] = json.loads(file.read(self.header.index_bytes))
            self._begin = file.tell()
        self._path = path
        self._read: dict[str, dict[Any, bytes]] = {}
        self._lock = threading.Lock()

    def kernel(self, place: str, stamp: str, key: Any) -> bytes | None:
        """The bytes that are kept of one signature of a function; None where it is not there.

        Args:
            place: of the function.
            stamp: digest of its source file as it is now, in hex.
            key: numba's.
        """
        found = self._index.get(place)
        if found is None or found[0] != stamp:
            return None
        with self._lock:
            if place not in self._read:
                with self._path.open("rb") as file:
                    file.seek(self._begin + found[1])
                    packed = file.read(found[2])
                self._read[place] = pickle.loads(zlib.decompress(packed))  # noqa: S301 - our own
        return self._read[place].get(key)


@functools.cache
def shipped_archive() -> Archive | None:
    """The archive of this installation; None where there is none that can be used here."""
    state = kernel_state()
    return None if state.header is None else Archive(state.archive)


FORMAT = 1

MOST_BYTES = 4096
"""Of the line."""


class ArchiveError(Exception):
    """An archive is not what it should be; the text says how."""


@dataclass(frozen=True)
class KernelHeader:
    """Platform and versions that the kernels of an archive are for.

    Attributes:
        python: the interpreter's cache tag, such as `cpython-311`.
        system: as `sys.platform`.
        machine: as `platform.machine()`.
        numba: its version.
        llvmlite: its version.
        cpu_name: processor in LLVM's words.
        cpu_features: further features, as numba has them.
        kernels: compiled functions, each signature counted.
        index_bytes: length of the index that follows the line.
        data_bytes: length of all that follows the index.
    """

    python: str
    system: str
    machine: str
    numba: str
    llvmlite: str
    cpu_name: str
    cpu_features: str
    kernels: int
    index_bytes: int
    data_bytes: int

    def line(self) -> bytes:
        """The line that an archive begins with.

        Raises:
            ArchiveError: if it were too long.
        """
        text = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}) + "\n"
        if len(text) > MOST_BYTES:
            raise ArchiveError(f"a header of {len(text)} bytes, and {MOST_BYTES} are allowed")
        return text.encode()


def read_header(path: Path) -> KernelHeader:
    """The header of an archive, whose length is checked against it.

    Raises:
        OSError: if it cannot be read.
        ArchiveError: if it is no archive, or not a whole one.
    """
    with path.open("rb") as file:
        line = file.readline(MOST_BYTES)
        length = os.fstat(file.fileno()).st_size
    try:
        data: Any = json.loads(line)
        if data.pop("format") != FORMAT:
            raise ArchiveError(f"it is not of format {FORMAT}")
        header = KernelHeader(**data)
        wanted = len(line) + header.index_bytes + header.data_bytes
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError("its first line is damaged") from error
    if length != wanted:
        raise ArchiveError(f"it has {length} bytes, and should have {wanted}")
    return header


def versions_differ(header: KernelHeader, *, numba: str, llvmlite: str) -> str:
    """How numba differs from the one that an archive was made with; empty where it does not."""
    here, made = (numba, llvmlite), (header.numba, header.llvmlite)
    if here == made:
        return ""
    return (
        f"they are for numba {made[0]} with llvmlite {made[1]}, and this is {' with '.join(here)}"
    )


ARCHIVE = Path(__file__).parents[1] / "compiled_kernels.bin"
"""Where a wheel has its kernels; an editable installation and a plain build have none."""


@dataclass(frozen=True)
class KernelState:
    """Check whether the kernels of the wheel are used in this process.

    Attributes:
        header: of the archive that is in use; None where none is.
        reason: why none is in use; empty where one is.
        archive: its file.
    """

    header: KernelHeader | None
    reason: str = ""
    archive: Path = ARCHIVE


@functools.cache
def kernel_state(archive: Path = ARCHIVE) -> KernelState:
    """The archive of this installation, if it is for this interpreter, processor and numba."""
    try:
        header = read_header(archive)
        reason = _unfit(header, archive)
    except FileNotFoundError:
        return KernelState(None, "this installation brings none")
    except (OSError, ArchiveError) as error:
        return KernelState(None, f"{archive.name} cannot be read: {error}")
    return KernelState(None, reason) if reason else KernelState(header, archive=archive)


def _unfit(header: KernelHeader, archive: Path) -> str:
    """Why an archive is not for this process; empty where it is."""
    here = (sys.implementation.cache_tag, sys.platform, platform.machine())
    made = (header.python, header.system, header.machine)
    if here != made:
        return f"they are for {' '.join(made)}, and this is {' '.join(map(str, here))}"
    if (header.cpu_name, header.cpu_features) != (common_level(), ""):
        return f"they are for {header.cpu_name}, and this processor is not"
    if os.name == "posix":
        for place in (archive, archive.parent):
            if _others_may_write(place):
                return f"others can write to {place}"
    # From their metadata: numba itself takes a while to load.
    installed = {name: importlib.metadata.version(name) for name in ("numba", "llvmlite")}
    return versions_differ(header, **installed)


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
