"""Sorting by a key inside compiled kernels, where NumPy's functions take seconds to compile.

Rows of varying length (CSR) from pairs of a row and an entry, as compiled code.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import inner_njit
from mcm_compiler.arrays.types import Longs


@inner_njit
def ascending(order: Longs, key: Longs) -> Longs:
    """The entries of `order` by ascending `key[entry]`; equal ones stay as they stand.

    Merge sort from runs of one upwards.

    Args:
        order: `[m]`, indices into `key`.
        key: `[n]`.

    Returns:
        `[m]`, a new array.
    """
    count = len(order)
    source, target = order.copy(), np.empty(count, np.int64)
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for at in range(low, high):
                if left < middle and (right >= high or key[source[left]] <= key[source[right]]):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source


@inner_njit
def numbered(count: int) -> Longs:
    """0, 1, ... `count` - 1."""
    numbers = np.empty(count, np.int64)
    for number in range(count):
        numbers[number] = number
    return numbers


@inner_njit
def negated(key: Longs) -> Longs:
    """`-key`, to sort descending."""
    opposite = np.empty(len(key), np.int64)
    for at in range(len(key)):
        opposite[at] = -key[at]
    return opposite


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
