"""Rows of varying length (CSR) from pairs of a row and an entry, as compiled code."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inner_njit
from mcm_compiler.arrays.types import Longs


@inner_njit
def row_ptr(rows: Longs, count: int) -> Longs:
    """`[count + 1]`, where each row starts.

    Args:
        rows: `[pairs]`, the row of each, below `count`.
        count: number of rows.
    """
    ptr = np.zeros(count + 1, np.int64)
    for row in rows:
        ptr[row + 1] += 1
    for row in range(count):
        ptr[row + 1] += ptr[row]
    return ptr


@inner_njit
def order_by_row(rows: Longs, ptr: Longs) -> Longs:
    """`[pairs]`, the pairs row by row; within a row they keep their order.

    Args:
        rows: as in `row_ptr`.
        ptr: as from `row_ptr`.
    """
    free = ptr[:-1].copy()
    order = np.empty(len(rows), np.int64)
    for index in range(len(rows)):
        order[free[rows[index]]] = index
        free[rows[index]] += 1
    return order
