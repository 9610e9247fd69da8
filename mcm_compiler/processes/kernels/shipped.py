"""Kernels that come compiled with a wheel: whether they can be used here, and why not.

A wheel for one platform and one Python carries its kernels as machine code
(`mcm_compiler/compiled_kernels.bin`, see `archive`), so that a first compile does not spend
a minute compiling them. numba keys such code by the processor that it is for. `fix_processor` has
it compile for a level that many machines share, before it is imported; what numba compiles later
fits what the wheel holds, and caches of one machine fit another.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from mcm_compiler.processes.kernels.header import ArchiveError, KernelHeader, read_header
from mcm_compiler.processes.kernels.installation import is_installed

ARCHIVE = Path(__file__).parents[2] / "compiled_kernels.bin"
"""Where a wheel has its kernels; an editable installation and a plain build have none."""

CPU_NAME, CPU_FEATURES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"
"""Read by numba when it is loaded: the processor that it compiles for."""

LOCATORS = "NUMBA_CACHE_LOCATOR_CLASSES"
"""Read by numba when it is loaded: classes that find caches; naming one has it imported."""

_CLASSES = (
    "mcm_compiler.processes.kernels.archive.ArchiveHook",
    "mcm_compiler.processes.kernels.folders.InstallationLocator",
    "UserProvidedCacheLocator",
    "InTreeCacheLocator",
    "UserWideCacheLocator",
    "IPythonCacheLocator",
    "ZipCacheLocator",
)

V3 = "x86-64-v3"
GENERIC = "generic"

_V3_FLAGS = frozenset(
    ("abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "lahf_lm", "movbe", "popcnt",
     "sse4_1", "sse4_2", "ssse3", "xsave")
)  # fmt: skip
"""What Linux calls the instructions of x86-64-v3."""


@dataclass(frozen=True)
class KernelState:
    """What became of the kernels of the wheel in this process.

    Attributes:
        header: of the archive that is in use; None where none is.
        reason: why none is in use; empty where one is.
        archive: its file.
    """

    header: KernelHeader | None
    reason: str = ""
    archive: Path = ARCHIVE


_state = KernelState(None, "mcm_compiler has not been imported")


def kernel_state() -> KernelState:
    """What `use_shipped_kernels` found."""
    return _state


def use_shipped_kernels(archive: Path = ARCHIVE) -> KernelState:
    """Has numba, which is loaded later, compile for a common processor and read `archive`.

    Changes only what no user has set.
    """
    global _state
    _state = _usable(archive)
    return _state


def _usable(archive: Path) -> KernelState:
    hooked = ",".join(_CLASSES)
    if "numba" not in sys.modules:
        fix_processor()
        if is_installed():
            os.environ.setdefault(LOCATORS, hooked)
    try:
        header = read_header(archive)
    except FileNotFoundError:
        return KernelState(None, "this installation brings none")
    except (OSError, ArchiveError) as error:
        return KernelState(None, f"{archive.name} cannot be read: {error}")
    reason = _unfit(header, archive)
    if reason:
        return KernelState(None, reason)
    if "numba" not in sys.modules:
        os.environ.setdefault(LOCATORS, hooked)
    if _setting("CACHE_LOCATOR_CLASSES") != hooked:
        return KernelState(None, f"{LOCATORS} is set to something else")
    return KernelState(header, archive=archive)


def fix_processor() -> None:
    """Sets the processor that numba compiles for, where the user has not, and this one can."""
    if CPU_NAME in os.environ or CPU_FEATURES in os.environ:
        return
    level = common_level()
    if level:
        os.environ[CPU_NAME], os.environ[CPU_FEATURES] = level, ""


def common_level() -> str:
    """The processor level that this machine shares with many others; empty for its own."""
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return GENERIC
    if machine in ("x86_64", "amd64") and _flags() >= _V3_FLAGS:
        return V3
    return ""


def _flags() -> frozenset[str]:
    """Instruction sets of the first core; empty where the system does not tell in a file."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def _unfit(header: KernelHeader, archive: Path) -> str:
    """Why an archive is not for this process; empty where it is."""
    here = (sys.implementation.cache_tag, sys.platform, platform.machine())
    made = (header.python, header.system, header.machine)
    if here != made:
        return f"they are for {' '.join(made)}, and this is {' '.join(map(str, here))}"
    if (_setting("CPU_NAME"), _setting("CPU_FEATURES")) != (header.cpu_name, header.cpu_features):
        if common_level() != header.cpu_name:
            return f"they are for {header.cpu_name}, and this processor is not"
        if "numba" in sys.modules:
            return "numba was imported before mcm_compiler"
        return f"{CPU_NAME} or {CPU_FEATURES} is set to something else"
    if os.name == "posix":
        for place in (archive, archive.parent):
            if _others_may_write(place):
                return f"others can write to {place}"
    return ""


def _setting(name: str) -> str | None:
    """A setting of numba: as it has read it, or as it will."""
    loaded = sys.modules.get("numba")
    if loaded is not None:
        return getattr(loaded.config, name, None)
    return os.environ.get(f"NUMBA_{name}")


def _others_may_write(place: Path) -> bool:
    """Whether somebody may write there who is not the owner, root or in the user's own group.

    What numba reads from the archive is executed.
    """
    found = place.stat()
    own_group = found.st_gid in (0, os.getegid())
    return bool(found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not own_group))
