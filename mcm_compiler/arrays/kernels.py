"""Ways to compile a kernel, without what it does not need.

numba gives every kernel two wrappers, one for calls from Python and one for calls from C, which
unpack each array of each tuple; where arguments are large tuples that takes longer to compile than
the kernel itself. Nothing here is called from C, and most kernels are called by other kernels only.

It also counts who holds each array of every tuple that a function is given, with atomic operations.
In functions as small as the moves of a local search that takes several times as long as their work.

| decorator | called by | may make arrays | |
|---|---|---|---|
| `entry_njit` | Python, kernels | yes | |
| `inner_njit` | kernels | yes | |
| `lean_njit` | Python, kernels | no | |
| `lean_inner_njit` | kernels | no | |
| `inlined_njit` | kernels | no | part of all that call it |
| `quotient_njit` | Python, kernels | yes | division by zero is infinite and raises nothing |

Machine code is kept on disk for later processes, see `kernel_cache`; that of `inlined_njit` as part
of what calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from numba import njit

from mcm_compiler.arrays.kernel_cache import KernelCache

_P = ParamSpec("_P")
_R = TypeVar("_R")


def entry_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A kernel that Python calls; without the interpreter's lock, and kept for later processes."""
    return _kept(_compiled(function))


def inner_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A kernel that only kernels call; a call from Python raises TypeError."""
    return _kept(_inner(function))


def lean_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`entry_njit` for a function that makes no array and returns none.

    Args:
        function: what to compile; the arrays that it is given belong to its caller. Slices of them
            are fine, new arrays are not: numba refuses to compile them.
    """
    return _kept(_compiled(function, _nrt=False))


def lean_inner_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`inner_njit` for a function that makes no array and returns none."""
    return _kept(_inner(function, _nrt=False))


def inlined_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`lean_inner_njit` for a function that becomes part of all that call it.

    A call with a dozen arrays takes longer than what the smallest kernels do.
    """
    return _inner(function, _nrt=False, forceinline=True)


def quotient_njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`entry_njit` that divides as NumPy does: by zero it is infinite or NaN, raising nothing."""
    return _kept(_compiled(function, error_model="numpy"))


def _kept(kernel: Callable[_P, _R]) -> Callable[_P, _R]:
    """Has numba keep what it compiles of a kernel, apart from what other options make of it."""
    dispatcher = cast("Any", kernel)
    way = repr(sorted(dispatcher.targetoptions.items()))
    dispatcher._cache = KernelCache(dispatcher.py_func, way)
    return kernel


def _compiled(function: Callable[_P, _R], **options: object) -> Callable[_P, _R]:
    made = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)  # pyright: ignore[reportCallIssue]
    return cast("Callable[_P, _R]", made)


def _inner(function: Callable[_P, _R], **options: object) -> Callable[_P, _R]:
    """A kernel without the wrapper for Python.

    numba would follow a pointer to nothing where Python calls it: what is compiled is kept from the
    table that such calls are looked up in, and what that falls back to refuses.
    """
    made = _compiled(function, no_cpython_wrapper=True, **options)
    dispatcher = cast("Any", made)

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TypeError(f"{function.__qualname__} is called by kernels only")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse
    return made
