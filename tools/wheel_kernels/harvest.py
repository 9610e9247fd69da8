"""Gathers what numba has compiled beside the sources of packages."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mcm_compiler.processes.kernel_archive import common_level, facts_here, member_of

SUFFIX = f".py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}.nbi"
"""Of numba's index files of this Python."""


def made_here() -> dict[str, str]:
    """What kernels are for that are compiled in this process.

    Raises:
        RuntimeError: if they were for this one processor, or need a library that others lack.
    """
    from numba.core import config as settings

    config: Any = settings

    if not common_level():
        raise RuntimeError("this processor is of no common level: its kernels would fit few others")
    if getattr(config, "USING_SVML", False):
        raise RuntimeError("numba uses SVML here, which other machines do not have")
    return facts_here()


def harvested(packages: Iterable[Path], made_for: Mapping[str, str]) -> dict[str, dict[Any, bytes]]:
    """Kernels of packages by member of an archive; stale ones and others' are left out.

    Args:
        packages: folders of import packages.
        made_for: as `made_here`.
    """
    found: dict[str, dict[Any, bytes]] = {}
    for package in packages:
        for index in sorted(package.rglob(f"__pycache__/*{SUFFIX}")):
            source = index.parent.parent / f"{index.name.partition('.')[0]}.py"
            if source.is_file():
                stamp = hashlib.sha256(source.read_bytes()).digest()
                module = ".".join(source.relative_to(package.parent).with_suffix("").parts)
                if kernels := _kernels(index, stamp, made_for):
                    found[member_of(module, index.name.removesuffix(".nbi"), stamp)] = kernels
    return found


def _kernels(index: Path, stamp: bytes, made_for: Mapping[str, str]) -> dict[Any, bytes]:
    # Imported late: numba reads its settings when it is loaded, and `made_here` comes first.
    from mcm_compiler.arrays.kernel_cache import kept_version

    with index.open("rb") as file:
        # Of the tree that is built.
        if pickle.load(file) not in (made_for["numba"], kept_version()):  # noqa: S301
            return {}
        try:
            compiled_from, overloads = pickle.load(file)  # noqa: S301
        except (ImportError, AttributeError):  # a type in a key has moved to another module since
            return {}
    if compiled_from != stamp:
        return {}
    kernels: dict[Any, bytes] = {}
    for key, name in overloads.items():
        _, processor, features = key[1]
        data = index.with_name(name)
        # Where something compiles at the same time, files of an older source are removed.
        if (processor, features) == (made_for["processor"], "") and data.is_file():
            kernels[key] = data.read_bytes()
    return kernels
