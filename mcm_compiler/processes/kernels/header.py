"""The first line of an archive of compiled kernels: what the machine code in it is for."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = 1

MOST_BYTES = 4096
"""Of the line."""


class ArchiveError(Exception):
    """An archive is not what it should be; the text says how."""


@dataclass(frozen=True)
class KernelHeader:
    """What the kernels of an archive are for.

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
