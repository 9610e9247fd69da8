"""What the results of a compile depend on besides its input: the code that runs, as one digest.

An installed distribution lists the hashes of its files. One that is installed for development has
no such list, so that its sources are hashed themselves: a changed line makes other results.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.report.versions import DISTRIBUTIONS

PLUGIN_GROUPS = "mcm_compiler."
"""What the names of the entry-point groups of components begin with."""

_CODE = (".py", ".so", ".pyd", ".toml", ".json", ".npz")


def environment_digest(plugins: Iterable[Path] = ()) -> str:
    """A digest of the compiler, what it runs on, its components, and plug-in files.

    Args:
        plugins: files that register components.

    Raises:
        CompileError: MCM-X004 for a plug-in file that cannot be read.
    """
    found: dict[str, str] = {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    for distribution in importlib.metadata.distributions():
        name = distribution.name
        entries = [e for e in distribution.entry_points if e.group.startswith(PLUGIN_GROUPS)]
        if name in DISTRIBUTIONS or entries:
            modules = {entry.value.partition(":")[0].partition(".")[0] for entry in entries}
            found.setdefault(f"distribution {name}", _code_of(distribution, sorted(modules)))
    for path in plugins:
        found[f"plug-in {path}"] = hashlib.sha256(_plugin_bytes(path)).hexdigest()
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _plugin_bytes(path: Path) -> bytes:
    reason = "it is not a regular file"
    try:
        # A device may never end.
        if path.is_file() or not path.exists():
            return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
    raise CompileError(
        Diagnostic("MCM-X004", f"the plug-in file cannot be read: {reason}", at=str(path))
    )


def _code_of(distribution: Distribution, modules: list[str]) -> str:
    """Version and hash of the code of a distribution.

    Args:
        distribution: that is installed.
        modules: top names of the modules that its entry points name.
    """
    if _is_editable(distribution):
        return f"{distribution.version} {_sources_digest(modules)}"
    record = distribution.read_text("RECORD") or ""
    return f"{distribution.version} {hashlib.sha256(record.encode()).hexdigest()}"


def _is_editable(distribution: Distribution) -> bool:
    try:
        told = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(told.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _sources_digest(modules: list[str]) -> str:
    digest = hashlib.sha256()
    for module in modules:
        for path in _files_of(module):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _files_of(module: str) -> list[Path]:
    """The files of a package or module, which is not imported."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [Path(spec.origin)] if spec.origin else []
    found: list[Path] = []
    for place in spec.submodule_search_locations:
        for here, folders, files in os.walk(place):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
            found += [Path(here, name) for name in sorted(files) if name.endswith(_CODE)]
    return found
