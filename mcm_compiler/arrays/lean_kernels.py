"""Compiling kernels that allocate nothing, without the counting of references.

numba counts who holds each array of every tuple that a function is given, with atomic operations.
In functions as small as the moves of a local search that takes several times as long as their work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

_P = ParamSpec("_P")
_R = TypeVar("_R")


def lean_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`njit(cache=True, nogil=True)` for a function that makes no array and returns none.

    Args:
        function: what to compile; the arrays that it is given belong to its caller. Slices of them
            are fine, new arrays are not: numba refuses to compile them.
    """
    compiled = njit(cache=True, nogil=True, _nrt=False)(function)  # pyright: ignore[reportCallIssue]
    return cast("Callable[_P, _R]", compiled)


def inlined_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`lean_njit` for a function that becomes part of all that call it.

    A call with a dozen arrays takes longer than what the smallest kernels do.

    Args:
        function: what to compile, as for `lean_njit`.
    """
    compiled = njit(nogil=True, _nrt=False, forceinline=True)(function)  # pyright: ignore[reportCallIssue]
    return cast("Callable[_P, _R]", compiled)
