"""Gathers what numba has compiled beside the sources of packages."""

from __future__ import annotations

import hashlib
import pickle
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mcm_compiler.processes.kernel_archive import FunctionKernels, common_level

SUFFIX = f".py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}.nbi"
"""Of numba's index files of this Python."""


def made_here() -> dict[str, str]:
    """What kernels are for that are compiled in this process.

    Raises:
        RuntimeError: if they were for this one processor, or need a library that others lack.
    """
    import llvmlite
    import numba
    from numba.core import config as settings

    config: Any = settings

    if not common_level():
        raise RuntimeError("this processor is of no common level: its kernels would fit few others")
    if getattr(config, "USING_SVML", False):
        raise RuntimeError("numba uses SVML here, which other machines do not have")
    return {
        "python": sys.implementation.cache_tag or "",
        "system": sys.platform,
        "machine": platform.machine(),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "cpu_name": common_level(),
        "cpu_features": "",
    }


def harvested(packages: Iterable[Path], made_for: Mapping[str, str]) -> dict[str, FunctionKernels]:
    """Kernels of packages by the place of their function; stale ones and others' are left out.

    Args:
        packages: folders of import packages.
        made_for: as `made_here`.
    """
    found: dict[str, FunctionKernels] = {}
    for package in packages:
        for index in sorted(package.rglob(f"__pycache__/*{SUFFIX}")):
            folder = index.parent.parent
            kernels = _kernels(index, made_for)
            if kernels is not None:
                relative = folder.relative_to(package.parent).as_posix()
                found[f"{relative}/{index.name.removesuffix('.nbi')}"] = kernels
    return found


def _kernels(index: Path, made_for: Mapping[str, str]) -> FunctionKernels | None:
    # Imported late: numba reads its settings when it is loaded, and `made_here` comes first.
    from mcm_compiler.arrays.kernel_cache import kept_version

    source = index.parent.parent / f"{index.name.partition('.')[0]}.py"
    if not source.is_file():
        return None
    with index.open("rb") as file:
        # Of the tree that is built.
        if pickle.load(file) not in (made_for["numba"], kept_version()):  # noqa: S301
            return None
        try:
            stamp, overloads = pickle.load(file)  # noqa: S301
        except (ImportError, AttributeError):  # a type in a key has moved to another module since
            return None
    if stamp != hashlib.sha256(source.read_bytes()).digest():
        return None
    kernels: dict[Any, bytes] = {}
    for key, name in overloads.items():
        _, processor, features = key[1]
        data = index.with_name(name)
        if (processor, features) != (made_for["cpu_name"], made_for["cpu_features"]):
            continue
        # Where something compiles at the same time, files of an older source are removed.
        if data.is_file():
            kernels[key] = data.read_bytes()
    return FunctionKernels(stamp.hex(), kernels) if kernels else None
