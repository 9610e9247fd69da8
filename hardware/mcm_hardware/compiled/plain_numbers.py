"""Numbers that compiled kernels take as variables, and not as literals."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import expanded_njit


@expanded_njit
def variable(value: int) -> int:
    """`value` as a variable.

    Where a literal is passed on to another kernel, numba compiles that once for literals and once
    more for the variable that it becomes in a loop.
    """
    return int(np.int64(value))
