"""Ways to compile a kernel, without what it does not need.

numba gives every kernel two wrappers, one for calls from Python and one for calls from C, which
unpack each array of each tuple. Where arguments are large tuples that takes longer to compile than
the kernel itself. Nothing here is called from C, and most kernels are called by other kernels only.

It also counts who holds each array of every tuple that a function is given, with atomic operations.
In functions as small as the moves of a local search that takes several times as long as their work.

| decorator | called by | may make arrays | |
|---|---|---|---|
| `entry_njit` | Python, kernels | yes | |
| `inner_njit` | kernels | yes | |
| `lean_njit` | Python, kernels | no | |
| `lean_inner_njit` | kernels | no | |
| `inlined_njit` | kernels | no | part of the machine code of all that call it |
| `expanded_njit` | kernels | yes | part of the source of all that call it |
| `quotient_njit` | Python, kernels | yes | division by zero is infinite and raises nothing |

Machine code is kept on disk for later processes, see `kernel_cache`; that of `inlined_njit` and
`expanded_njit` as part of their callers. It is for the target of `kernel_target`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from mcm_compiler.arrays.kernel_target import InlinedKernel, InnerKernel, Kernel

_P = ParamSpec("_P")
_R = TypeVar("_R")


def entry_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A kernel that Python calls; without the interpreter's lock, and kept for later processes."""
    return _kernel(function)


def inner_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A kernel that only kernels call; a call from Python raises TypeError."""
    return _kernel(function, InnerKernel)


def lean_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`entry_njit` for a function that makes no array and returns none.

    Args:
        function: what to compile; the arrays that it is given belong to its caller. Slices of them
            are fine, new arrays are not: numba refuses to compile them.
    """
    return _kernel(function, _nrt=False)


def lean_inner_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`inner_njit` for a function that makes no array and returns none."""
    return _kernel(function, InnerKernel, _nrt=False)


def inlined_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`lean_inner_njit` for a function that becomes part of all that call it.

    A call with a dozen arrays takes longer than what the smallest kernels do.
    """
    return _kernel(function, InlinedKernel, _nrt=False, forceinline=True)


def expanded_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A kernel whose source becomes part of all that call it, before types are inferred."""
    return _kernel(function, inline="always")


def quotient_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`entry_njit` that divides as NumPy does: by zero it is infinite or NaN, raising nothing."""
    return _kernel(function, error_model="numpy")


def _kernel(
    function: Callable[_P, _R], kind: type[Kernel] = Kernel, **options: object
) -> Callable[_P, _R]:
    wanted = {"nopython": True, "boundscheck": None, "nogil": True, "no_cfunc_wrapper": True}
    if issubclass(kind, InnerKernel):
        wanted["no_cpython_wrapper"] = True
    made: Any = kind
    return made(function, targetoptions=wanted | options)
