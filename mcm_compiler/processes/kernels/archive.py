"""Compiled kernels in one file, which is read before the cache.

An archive is a header (see `header`), an index in JSON, and for each function what numba
would keep in its cache: keys and machine code, compressed. A function is found by its place in the
package, and taken only where its source file has the content that it was compiled from.

What is read are pickles, which are executed: archives belong to the installation, and are as
trusted as its modules.
"""

from __future__ import annotations

import functools
import json
import pickle
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcm_compiler.processes.kernels.header import KernelHeader, read_header
from mcm_compiler.processes.kernels.shipped import kernel_state


@dataclass(frozen=True)
class FunctionKernels:
    """What an archive holds of one function.

    Attributes:
        stamp: digest of its source file, in hex.
        kernels: by numba's key, what numba keeps of a compiled signature.
    """

    stamp: str
    kernels: Mapping[Any, bytes]


def archive_bytes(made_for: Mapping[str, str], functions: Mapping[str, FunctionKernels]) -> bytes:
    """An archive.

    Args:
        made_for: the fields of `KernelHeader` that tell what the kernels are for.
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
