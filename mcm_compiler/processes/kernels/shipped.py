"""Kernels that come compiled with a wheel: whether they can be used here, and why not.

A wheel for one platform and one Python carries its kernels as machine code
(`mcm_compiler/compiled_kernels.bin`, see `archive`), so that a first compile does not spend
a minute compiling them. They are for a processor level that many machines share (`processor`).
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from mcm_compiler.processes.kernels.header import (
    ArchiveError,
    KernelHeader,
    read_header,
    versions_differ,
)
from mcm_compiler.processes.kernels.processor import common_level

ARCHIVE = Path(__file__).parents[2] / "compiled_kernels.bin"
"""Where a wheel has its kernels; an editable installation and a plain build have none."""


@dataclass(frozen=True)
class KernelState:
    """Whether the kernels of the wheel are used in this process.

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
    """Whether somebody may write there who is not the owner, root or in the user's own group.

    What is read from the archive is executed.
    """
    found = place.stat()
    own_group = found.st_gid in (0, os.getegid())
    return bool(found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not own_group))
