"""Hermetic compiles: no telemetry, and compiled kernels cached in a private folder.

onnxruntime queues events, among them names of graphs, in a database below the home folder and sends
them to a host, unless an environment variable forbids it before the library is loaded. numba keeps
compiled kernels beside the source or below the home folder; of a read-only installation, or for a
user without a home, neither may be there. `import mcm_compiler` calls `keep_to_itself`, so that all
processes and the Python API get the same.
"""

from __future__ import annotations

import os
import stat
import sys

from mcm_compiler.processes.kernels.shipped import use_shipped_kernels

TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"
"""Read by onnxruntime when it is loaded; what a user has set stays."""

KERNELS_VARIABLE = "NUMBA_CACHE_DIR"
"""Read by numba when it is loaded: where kernels lie instead of beside their source."""

KERNELS_PREFIX = ".mcmc-kernels-"
"""Begins the name of the folder for kernels; the number of the user follows."""


def keep_to_itself() -> None:
    """Forbids telemetry, and finds kernels and a place for new ones.

    Changes only what no user has set.
    """
    _without_telemetry()
    use_shipped_kernels()
    _place_kernels(os.path.dirname(__file__))


def _without_telemetry() -> None:
    if TELEMETRY_VARIABLE in os.environ:
        return
    os.environ[TELEMETRY_VARIABLE] = "1"
    # Loaded before us it has read the variable already.
    loaded = sys.modules.get("onnxruntime")
    if loaded is not None and hasattr(loaded, "disable_telemetry_events"):
        loaded.disable_telemetry_events()


def _place_kernels(package: str) -> None:
    """Has numba write to a private temporary folder where `package` cannot be written.

    Args:
        package: the folder of an installed package of this project.
    """
    given = os.environ.get(KERNELS_VARIABLE)
    if _writable(given or os.path.join(package, "__pycache__")):
        return
    folder = private_kernels()
    if folder is None:
        return
    os.environ[KERNELS_VARIABLE] = folder
    loaded = sys.modules.get("numba")
    if loaded is not None:
        loaded.config.CACHE_DIR = folder


def private_kernels() -> str | None:
    """The folder of this user for kernels, in the system's temporary folder; None without one.

    What numba reads there is executed, so that it must be nobody else's: where the name is taken by
    a link or by something that others can write, each process tree gets a folder of its own.
    """
    import tempfile

    try:
        temporary = tempfile.gettempdir()
    except OSError:
        return None
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    shared = os.path.join(temporary, f"{KERNELS_PREFIX}{user}")
    try:
        os.mkdir(shared, mode=0o700)
    except FileExistsError:
        if not _is_private(shared):
            return _own_folder(temporary)
    except OSError:
        return None
    return shared


def _own_folder(temporary: str) -> str | None:
    """A folder whose name tells the process that it belongs to, so that a later one removes it."""
    import atexit
    import shutil
    import tempfile

    from mcm_compiler.processes.private_folders import PREFIX, world

    owner = os.getpid()
    prefix = f"{PREFIX}{world() or 'here'}-{owner}-"
    try:
        folder = tempfile.mkdtemp(prefix=prefix, dir=temporary)
    except OSError:
        return None

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _is_private(folder: str) -> bool:
    """Whether `folder` is a folder, no link, of this user, and closed to all others."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077


def _writable(folder: str) -> bool:
    """Whether files can be made in `folder`, or it can be made itself."""
    place = os.path.abspath(folder)
    while not os.path.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return os.path.isdir(place) and os.access(
        place, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    )
