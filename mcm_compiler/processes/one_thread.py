"""Numeric libraries on one thread each, so that sums are reproducible."""

from __future__ import annotations

import os

_VARIABLES = {
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}
_XLA_FLAG = "--xla_cpu_multi_thread_eigen"


def use_one_thread() -> None:
    """Sets what NumPy and JAX read when they are imported; what the user has set stays.

    Acts on libraries that this process and its children import later.
    """
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    flags = os.environ.get("XLA_FLAGS", "")
    if _XLA_FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_XLA_FLAG}=false".strip()
