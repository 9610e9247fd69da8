"""Kernels of an installation apart from those of the one that was there before.

An upgrade in place leaves caches behind: an index would name a class that is gone, and what nobody
asks for again would stay. So an installation's kernels lie in a folder that is named after its
content, below the one that numba would have taken. A checkout has no such name, and the caches of
`mcm_compiler.arrays.kernel_cache` alone.

numba imports this module because `shipped` names `InstallationLocator` in a variable that
numba reads for classes that find caches.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import caching

from mcm_compiler.processes.kernels.installation import PACKAGES, PREFIX, installation_name


class InstallationLocator:
    """Where numba would keep a function of this installation, in a folder of its own below it."""

    def __init__(self, locator: Any, name: str) -> None:
        self._locator = locator
        self._folder = os.path.join(locator.get_cache_path(), name)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> InstallationLocator | None:
        """Of a function of this project, where it is installed; others are numba's."""
        name = installation_name()
        if not name or py_func.__module__.partition(".")[0] not in PACKAGES:
            return None
        for numbas in caching.CacheImpl._locator_classes:  # pyright: ignore[reportPrivateUsage]
            found = numbas.from_function(py_func, py_file)
            if found is not None:
                own = cls(found, name)
                with suppress(OSError):
                    own.ensure_cache_path()
                    return own
        return None

    def get_cache_path(self) -> str:
        """The folder."""
        return self._folder

    def ensure_cache_path(self) -> None:
        """Makes the folder, and removes those of installations before."""
        folder = Path(self._folder)
        if folder.is_dir():
            return
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.parent.glob(f"{PREFIX}*"):
            if other.name != folder.name:
                shutil.rmtree(other, ignore_errors=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locator, name)
