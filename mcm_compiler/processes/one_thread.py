"""Numeric libraries on one thread each, so that sums are reproducible."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_VARIABLES = {
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}
_XLA_FLAG = "--xla_cpu_multi_thread_eigen"

_NUMPY_CORE = "numpy._core._multiarray_umath"
_OPENBLAS = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_")
"""Names of OpenBLAS's functions in builds of NumPy."""


def use_one_thread() -> None:
    """Sets what NumPy and JAX read when they are imported; what the user has set stays.

    Acts on libraries that this process and its children import later.
    """
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    flags = os.environ.get("XLA_FLAGS", "")
    if _XLA_FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_XLA_FLAG}=false".strip()


@contextmanager
def numpy_on_one_thread() -> Generator[None]:
    """Products of matrices on one thread, also in a NumPy that is imported already.

    On small matrices, threads of OpenBLAS mostly wait for each other: learning took 12 to 21 times
    the CPU time. Afterwards NumPy has its threads back. Has no effect on builds without OpenBLAS.
    """
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


class _Limit:
    """Number of blocks that need one thread; the last that ends gives the threads back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._found: tuple[Any, ...] = ()
        self._before = 1

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            self._found = _openblas()
            if self._found:
                self._before = self._found[0]()
                self._found[1](1)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._found:
                self._found[1](self._before)


_LIMIT = _Limit()


def _openblas() -> tuple[Any, ...]:
    """Functions that get and set the number of threads; empty without OpenBLAS."""
    core = sys.modules.get(_NUMPY_CORE)
    # Symbols of the libraries that it links are found through it.
    library = ctypes.CDLL(core.__file__) if core is not None else None
    for name in _OPENBLAS:
        if hasattr(library, name.format("get")):
            return tuple(getattr(library, name.format(which)) for which in ("get", "set"))
    return ()
