"""Folders of compiled kernels.

They are next to the source, or where a user has numba's cache. An installation that cannot be
written has a private folder among the system's temporary files.

An upgrade in place leaves caches behind: an index would name a class that is gone, and what nobody
asks for again would stay. So an installation's kernels are in a folder that is named after its
content, below the one that a checkout would have.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from numba.core import caching

KERNELS_PREFIX = ".mcmc-kernels-"
"""Begins the name of the private folder; the number of the user follows."""


class PrivateLocator(caching.UserProvidedCacheLocator):
    """A function's folder in the private folder of this user."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        below = cast("Any", self).get_suitable_cache_subpath(py_file)
        self._cache_path = os.path.join(private_kernels() or "", below)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """None where no private folder can be made."""
        found = private_kernels() is not None and os.path.exists(py_file)
        return cls(py_func, py_file) if found else None


class KernelLocator:
    """A function's folder; of this installation one with its name, below the one for checkouts."""

    def __init__(self, locator: Any, name: str) -> None:
        self._locator = locator
        self._folder = os.path.join(locator.get_cache_path(), name)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """The first of the user's, the source's and the private folder that can be written."""
        kinds: Any = (caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, PrivateLocator)
        name = installation_name()
        for kind in kinds:
            found = kind.from_function(py_func, py_file)
            if found is not None:
                if not name or py_func.__module__.partition(".")[0] not in PACKAGES:
                    return found
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


@functools.cache
def private_kernels() -> str | None:
    """The folder of this user for kernels, in the system's temporary folder; None without one.

    Its files are executed, so that nobody else may write there. Where the name is taken by a link,
    or by a folder that others can write, kernels are kept nowhere.
    """
    import tempfile

    user = os.geteuid() if hasattr(os, "geteuid") else 0
    try:
        folder = os.path.join(tempfile.gettempdir(), f"{KERNELS_PREFIX}{user}")
        with suppress(FileExistsError):
            os.mkdir(folder, mode=0o700)
    except OSError:
        return None
    return folder if _is_private(folder) else None


def _is_private(folder: str) -> bool:
    """True for a folder, no link, of this user that is closed to all others."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077


PACKAGES = ("mcm_compiler", "mcm_passes", "mcm_hardware", "mcm_models")
"""Import packages of the distribution."""

PREFIX = "mcm-"

HOME = Path(__file__).parents[2]
"""Where the packages lie: site-packages, or a folder of a checkout."""

_RECORDS = "mcm_compiler-*.dist-info/RECORD"


@functools.cache
def installation_name(home: Path = HOME) -> str:
    """A name by the hashes of all installed files; empty for a checkout, which has no such list.

    Args:
        home: the folder of the import package `mcm_compiler`.
    """
    import hashlib  # not for those who only ask for help

    records = sorted(home.glob(_RECORDS))
    if not records:
        return ""
    content = b"".join(record.read_bytes() for record in records)
    return f"{PREFIX}{hashlib.sha256(content).hexdigest()[:12]}"
