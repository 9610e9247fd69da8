"""Versions of everything that a compile's result depends on."""

from __future__ import annotations

import importlib.metadata
import platform

DISTRIBUTIONS = ("mcm-compiler", "onnx", "onnx-ir", "onnxruntime", "numpy", "numba")
"""Distributions whose code decides what the compiler writes."""


def versions() -> dict[str, str | None]:
    """Installed versions by distribution, and Python's as `major.minor`; None where not installed.

    Nothing is imported: the numbers come from the distributions' metadata.
    """
    found: dict[str, str | None] = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    found["python"] = ".".join(platform.python_version_tuple()[:2])
    return found
