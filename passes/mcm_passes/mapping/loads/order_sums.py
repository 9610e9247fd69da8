"""Sums along an order of what is alive between two of its positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.types import Ints, Longs


def sum_between(
    values: npt.NDArray[Any], first: Ints | Longs, final: Ints | Longs, n: int
) -> npt.NDArray[Any]:
    """`[n + 1]`, at each index the sum of the values from whose `first` to whose `final` it is."""
    steps = np.zeros(n + 2, values.dtype)
    np.add.at(steps, first, values)
    np.subtract.at(steps, final + 1, values)
    return np.cumsum(steps)[: n + 1]
