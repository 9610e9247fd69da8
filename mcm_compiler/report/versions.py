"""Versions of everything that a compile's result depends on."""

from __future__ import annotations

import functools
import importlib.metadata
import platform

from mcm_compiler.processes.kernel_archive import kernel_state

DISTRIBUTIONS = ("mcm-compiler", "onnx", "onnx-ir", "onnxruntime", "numpy", "numba")
"""Distributions whose code decides what the compiler writes."""


def versions() -> dict[str, str | None]:
    """Installed versions by distribution, and Python's as `major.minor`; None where not installed.

    Nothing is imported: the numbers come from the distributions' metadata.
    """
    found = {name: _version(name) for name in DISTRIBUTIONS}
    found["python"] = ".".join(platform.python_version_tuple()[:2])
    return found


@functools.cache
def _version(name: str) -> str | None:
    """Version of a package, cached: reading the metadata takes a twentieth of a small compile."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def compiled_kernels() -> str:
    """Return whether the compiled kernels of the installation are in use, or why not."""
    state = kernel_state()
    if state.archive is None:
        return f"compiled when first called: {state.reason}"
    header = state.archive.header
    return f"{header['kernels']} that came compiled for {header['processor']}"
